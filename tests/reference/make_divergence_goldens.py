#!/usr/bin/env python3
"""Writes src/eval/goldens/divergence.json with NumPy and SciPy:

  samples  means with standard errors, quantiles and their distribution-free intervals, of small made-up samples
  models   two models that are tables of logits, by the token before, and how far they are from each other on a text

    python3 tests/reference/make_divergence_goldens.py
"""
import json
import pathlib

import numpy as np
from scipy import special, stats

GOLDEN = pathlib.Path(__file__).resolve().parent.parent.parent / "src" / "eval" / "goldens" / "divergence.json"
QUANTILES = [0.0, 0.25, 0.5, 0.9, 0.999, 1.0]
Z = stats.norm.ppf(0.975)


def number(value):
    return None if np.isnan(value) else float(value)


def interval(ordered, q):
    n = len(ordered)
    reach = Z * np.sqrt(n * q * (1 - q))
    ranks = [int(np.floor(n * q - reach)), int(np.ceil(n * q + reach)) + 1]
    return [float(ordered[rank - 1]) if 1 <= rank <= n else None for rank in ranks]


def golden(values, window):
    values = np.asarray(values, dtype=np.float32)
    wide = values.astype(np.float64)
    means = wide.reshape(-1, window).mean(axis=1)
    with np.errstate(all="ignore"):
        return {
            "values": [float(v) for v in values],
            "window": window,
            "mean": float(wide.mean()),
            "standard_error": number(stats.sem(wide)) if len(wide) > 1 else None,
            "window_standard_error": number(stats.sem(means)) if len(means) > 1 else None,
            "quantiles": [[q, float(np.quantile(wide, q))] for q in QUANTILES],
            "intervals": [[q, *interval(np.sort(values), q)] for q in (0.25, 0.5, 0.9)],
        }


random = np.random.default_rng(7)
samples = [
    golden([0.5], 1),
    golden([3.0, 1.0, 2.0, 2.0], 2),
    golden([1.0, 1.0, 5.0, 5.0, 9.0, 9.0], 2),
    golden(random.lognormal(-3, 1.5, 40), 8),
    golden(random.normal(0.1, 1, 39), 39),
]


def models(vocabulary, window, windows):
    tables = random.normal(0, 2, (2, vocabulary, vocabulary)).astype(np.float32)  # the model's, the reference's
    tables[1] += 2 * tables[0]  # so that they often agree
    tokens = random.integers(0, vocabulary, window * windows + 3)  # a partial window stays unused
    texts = tokens[: window * windows].reshape(windows, window)
    before, after = texts[:, :-1].ravel(), texts[:, 1:].ravel()
    model, reference = (special.log_softmax(table.astype(np.float64), axis=-1)[before] for table in tables)
    nll, reference_nll = (-np.take_along_axis(rows, after[:, None], 1)[:, 0] for rows in (model, reference))
    kl = special.rel_entr(np.exp(reference), np.exp(model)).sum(axis=1)
    same = model.argmax(axis=1) == reference.argmax(axis=1)
    difference = nll - reference_nll
    return {
        "vocabulary": vocabulary,
        "window": window,
        "logits": [[float(x) for x in table.ravel()] for table in tables],
        "tokens": tokens.tolist(),
        "nll": float(nll.mean()),
        "nll_standard_error": float(stats.sem(nll)),
        "kl": float(kl.mean()),
        "kl_standard_error": float(stats.sem(kl)),
        "kl_window_standard_error": float(stats.sem(kl.reshape(windows, -1).mean(axis=1))),
        "kl_median": float(np.median(kl)),
        "kl_p999": float(np.quantile(kl, 0.999)),
        "top1_agreement": float(same.mean()),
        "top1_standard_error": float(np.sqrt(same.mean() * (1 - same.mean()) / len(same))),
        "nll_increase": float(difference.mean()),
        "nll_increase_standard_error": float(stats.sem(difference)),
    }


text = "{\n\"samples\": [\n" + ",\n".join(" " + json.dumps(sample) for sample in samples) + "\n],\n"
GOLDEN.write_text(text + "\"models\": " + json.dumps(models(7, 6, 9)) + "\n}\n")
