#!/usr/bin/env python3
"""Prints smoothquant.json: what a NumPy transcription of SmoothQuant loses on two layers that share an input.

    make_smoothquant.py > smoothquant.json

SmoothQuant (arXiv 2211.10438, section 4): s = max|x|^alpha / max|w|^(1 - alpha) for each input, over both layers; W diag(s)
in INT8 with a scale for each output (fp16), x / s in INT8 with a scale for each token. Layers: the first 12 outputs of
the layer of make_weight_only.py, and 4 times the others; its inputs, those of every 37th channel 24 times larger. Losses:
|x^ W^^T - x W^T|^2 / |x W^T|^2, of each layer.
"""
import json

import numpy as np

from make_weight_only import fp16_array, make_inputs, make_weights

FIRST, OUTLIER_STEP, OUTLIER = 12, 37, 24.0


def int8_rows(values, round_scale=lambda scale: scale):
    """Symmetric INT8, a scale for each row."""
    scale = round_scale(np.abs(values).max(axis=1, keepdims=True) / 127)
    return np.clip(np.rint(values / scale), -127, 127) * scale


def losses(x, layers, s):
    inputs = int8_rows(x / s)
    result = []
    for w in layers:
        exact = x @ w.T
        error = inputs @ int8_rows(w * s, fp16_array).T - exact
        result.append(float((error ** 2).sum() / (exact ** 2).sum()))
    return result


def main():
    w, x = make_weights(), make_inputs()
    x[:, ::OUTLIER_STEP] *= OUTLIER
    layers = [w[:FIRST], 4 * w[FIRST:]]
    largest_x = np.abs(x).max(axis=0)
    largest_w = np.abs(np.concatenate(layers)).max(axis=0)
    result = {"w8a8": losses(x, layers, np.ones(len(largest_x)))}
    for alpha in (0.5, 0.85):
        s = largest_x ** alpha / largest_w ** (1 - alpha)
        result[f"smoothquant {alpha}"] = losses(x, layers, s)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
