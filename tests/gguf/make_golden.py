#!/usr/bin/env python3
"""Writes stories260K.json: what a NumPy implementation in float64 computed with the stories260K model.

    python3 make_golden.py golden_numpy_f64.npz

Of each of the 65 positions after the greedy ids: the first 16 logits and the logarithm of the sum of all
exponentials (which takes in every other logit). Of 20 stories: predicted tokens and negative log-likelihood in nats.
"""
import json
import pathlib
import sys

import numpy as np

golden = np.load(sys.argv[1])
logits = golden["logits"].astype(np.float64)
largest = logits.max(axis=1, keepdims=True)
log_sum = (largest + np.log(np.exp(logits - largest).sum(axis=1, keepdims=True)))[:, 0]
result = {
    "ids": golden["greedy_ids"].tolist(),
    "first_logits": [[round(x, 5) for x in row] for row in logits[:, :16].tolist()],
    "log_sum_exp": [round(x, 5) for x in log_sum.tolist()],
    "story_tokens": golden["story_tokens"].tolist(),
    "story_nll": [round(x, 4) for x in golden["story_nll"].tolist()],
}
text = json.dumps(result).replace('], [', '],\n[').replace('], "', '],\n"')
(pathlib.Path(__file__).parent / "stories260K.json").write_text(text + "\n")
