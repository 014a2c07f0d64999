#!/usr/bin/env python3
"""Writes src/eval/goldens/activations.json: what layers of models/demo read on the first windows of its evaluation
text, with transformers in float32 and NumPy.

    python3 tests/reference/make_activation_goldens.py
"""
import json
import pathlib

import numpy as np
import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODEL = ROOT / "models" / "demo"
WINDOW, WINDOWS = 48, 2
LAYERS = ["model.layers.0.self_attn.k_proj", "model.layers.2.mlp.down_proj", "model.layers.5.self_attn.o_proj"]
THRESHOLD = 2.0
EDGES = [-np.inf, -1.0, -0.5, 0.0, 0.5, 1.0, np.inf]

tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(MODEL / "tokenizer.json"))
text = (MODEL / "texts" / "evaluation.txt").read_text()
tokens = tokenizer(text, add_special_tokens=False)["input_ids"][: WINDOW * WINDOWS + 5]
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval()
seen = {name: [] for name in LAYERS}
for name in LAYERS:
    model.get_submodule(name).register_forward_hook(lambda _, inputs, __, name=name: seen[name].append(inputs[0]))
with torch.no_grad():
    model(torch.tensor(tokens[: WINDOW * WINDOWS]).reshape(WINDOWS, WINDOW))

layers = []
for name in LAYERS:
    x = torch.cat(seen[name]).reshape(WINDOW * WINDOWS, -1).numpy().astype(np.float64)
    maximum = np.abs(x).max(axis=0)
    outliers = [int(c) for c in np.argsort(-maximum, kind="stable") if maximum[c] >= THRESHOLD]
    layers.append({
        "name": name,
        "channel_maximum": [round(float(m), 6) for m in maximum],
        "outliers": outliers,
        "counts": np.histogram(x, EDGES)[0].tolist(),
    })
golden = {"window": WINDOW, "windows": WINDOWS, "tokens": tokens, "threshold": THRESHOLD, "edges": EDGES[1:-1], "layers": layers}
(ROOT / "src" / "eval" / "goldens" / "activations.json").write_text(json.dumps(golden) + "\n")
for layer in layers:
    print(layer["name"], len(layer["outliers"]), layer["counts"], max(layer["channel_maximum"]))
