#!/usr/bin/env python3
"""Prints gqsa.json: which groups of one layer GQSA's saliency prunes, and what that loses, by NumPy.

    make_gqsa.py > gqsa.json

Written from the paper (arXiv 2412.17560, section 3.2) in float64: the saliency w^2 / [H^-1]_jj^2 averaged over the
groups of a row (and, as "obs", w^2 / [H^-1]_jj); the lowest groups of each row, or of the matrix, go. SparseGPT's
sweep makes up for them (beside it, the least squares of each row), then integers by GPTQ, one scale and zero for each group, with pruned weights held at 0. Layer
and measure are those of make_weight_only.py.
"""
import json

import numpy as np

import make_weight_only as layer

CASES = [("gqsa", "row", 16, 0.5), ("gqsa", "row", 8, 0.3), ("gqsa", "row", 32, 0.75), ("gqsa", "matrix", 16, 0.5),
         ("gqsa", "matrix", 64, 0.25), ("obs", "row", 16, 0.5), ("obs", "matrix", 16, 0.2)]


def saliency(w, h, group, kind):
    diagonal = np.diag(np.linalg.inv(layer.damped(h)))
    scores = w * w / (diagonal ** 2 if kind == "gqsa" else diagonal)
    return scores.reshape(layer.ROWS, -1, group).mean(axis=2)


def lowest_groups(scores, share, balance):
    """True for the groups that go."""
    compared = scores if balance == "row" else scores.reshape(1, -1)
    count = round(share * compared.shape[1])
    mask = np.zeros(compared.shape, bool)
    np.put_along_axis(mask, np.argsort(compared, axis=1, kind="stable")[:, :count], True, axis=1)
    return mask.reshape(scores.shape)


def sweep(w, h, mask):
    """SparseGPT's updates for weights that have been chosen."""
    upper = np.linalg.cholesky(np.linalg.inv(layer.damped(h))).T
    w = w.copy()
    for i in range(layer.INPUTS):
        error = np.where(mask[:, i], w[:, i] / upper[i, i], 0)
        w[:, i:] -= np.outer(error, upper[i, i:])
        w[mask[:, i], i] = 0
    return w


def least_squares(w, h, mask):
    """The kept weights of each row that lose least."""
    best, h = np.zeros_like(w), layer.damped(h)
    for row, kept in enumerate(~mask):
        best[row, kept] = np.linalg.solve(h[np.ix_(kept, kept)], h[kept] @ w[row])
    return best


def gptq(w, mask, h, group, bits):
    layer.GROUP = group
    parameters = layer.search(w, np.diag(h), bits, [1.0])
    quantize = layer.integer_quantizer(parameters, bits)
    return layer.gptq(w, h, lambda column, j: np.where(mask[:, j], 0, quantize(column, j)))


def main():
    w, hessian = layer.make_layer()
    cases = []
    for kind, balance, group, share in CASES:
        scores = saliency(w, hessian, group, kind)
        gone = lowest_groups(scores, share, balance)
        mask = np.repeat(gone, group, axis=1)
        updated = sweep(w, hessian, mask)
        with np.errstate(invalid="ignore", divide="ignore"):  # groups of zeros have no scale
            rounded = np.where(mask, 0, gptq(updated, mask, hessian, group, 4))
        cases.append({"saliency": kind, "balance": balance, "group": group, "share": share,
                      "first row": [float(f"{v:.6g}") for v in scores[0]],
                      "pruned": ["".join("x" if g else "." for g in row) for row in gone],
                      "swept loss": layer.output_loss(w, updated, hessian),
                      "least pruned loss": layer.output_loss(w, least_squares(w, hessian, mask), hessian),
                      "rounded loss": layer.output_loss(w, rounded, hessian)})
    print(json.dumps(cases, indent=1))


if __name__ == "__main__":
    main()
