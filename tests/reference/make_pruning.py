#!/usr/bin/env python3
"""Prints pruning.json: what NumPy transcriptions of pruning methods lose on one layer.

    make_pruning.py > pruning.json

Written from the papers in float64: magnitude, Wanda (arXiv 2306.11695), SparseGPT (arXiv
2301.00774), and integers by GPTQ on what they leave, with pruned weights held at 0. The layer and
the measure are those of make_weight_only.py: tr(E H E^T) / tr(W H W^T), E against the original.
"""
import json

import numpy as np

import make_weight_only as layer

BLOCK, BITS = 128, 4
# How many of how many are pruned.
PATTERNS = {"unstructured": None, "2:4": (2, 4), "4:8": (4, 8), "1:4": (3, 4), "1:2": (1, 2), "12:16": (4, 16)}


def lowest(scores, count):
    """True for the `count` lowest of each row."""
    mask = np.zeros(scores.shape, bool)
    np.put_along_axis(mask, np.argsort(scores, axis=1, kind="stable")[:, :count], True, axis=1)
    return mask


def by_score(scores, pattern):
    if pattern is None:
        return lowest(scores, scores.shape[1] // 2)
    pruned, of = pattern
    return np.concatenate([lowest(scores[:, g:g + of], pruned) for g in range(0, scores.shape[1], of)], axis=1)


def sparsegpt(w, h, pattern):
    """Algorithm 1. Unstructured: the lower half of each block of inputs, all rows together."""
    upper = np.linalg.cholesky(np.linalg.inv(layer.damped(h))).T
    w, mask = w.copy(), np.zeros(w.shape, bool)
    for i in range(layer.INPUTS):
        here = slice(i, i + (pattern[1] if pattern else BLOCK))
        if i % (here.stop - i) == 0:
            scores = (w[:, here] / np.diag(upper)[here]) ** 2
            mask[:, here] = (lowest(scores, pattern[0]) if pattern
                             else lowest(scores.reshape(1, -1), scores.size // 2).reshape(scores.shape))
        error = np.where(mask[:, i], w[:, i] / upper[i, i], 0)
        w[:, i:] -= np.outer(error, upper[i, i:])
        w[mask[:, i], i] = 0
    return w, mask


def gptq(w, mask, h):
    """GPTQ of make_weight_only.py; a pruned weight is rounded to 0 whatever it has become."""
    parameters = layer.search(w, np.diag(h), BITS, [1.0])
    quantize = layer.integer_quantizer(parameters, BITS)
    return layer.gptq(w, h, lambda column, j: np.where(mask[:, j], 0, quantize(column, j)))


def main():
    w, hessian = layer.make_layer()
    losses = {}
    for name, pattern in PATTERNS.items():
        by_magnitude = by_score(np.abs(w), pattern)
        by_wanda = by_score(np.abs(w) * np.sqrt(np.diag(hessian)), pattern)
        updated, chosen = sparsegpt(w, hessian, pattern)
        share = pattern[0] / pattern[1] if pattern else 0.5
        assert by_wanda.sum() == chosen.sum() == w.size * share
        losses[name] = {
            "magnitude": layer.output_loss(w, np.where(by_magnitude, 0, w), hessian),
            "wanda": layer.output_loss(w, np.where(by_wanda, 0, w), hessian),
            "sparsegpt": layer.output_loss(w, updated, hessian),
            "magnitude gptq": layer.output_loss(w, gptq(np.where(by_magnitude, 0, w), by_magnitude, hessian), hessian),
            "wanda gptq": layer.output_loss(w, gptq(np.where(by_wanda, 0, w), by_wanda, hessian), hessian),
            "sparsegpt gptq": layer.output_loss(w, gptq(updated, chosen, hessian), hessian)}
    print(json.dumps(losses, indent=1))


if __name__ == "__main__":
    main()
