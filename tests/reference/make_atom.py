#!/usr/bin/env python3
"""Prints atom.json: what a NumPy transcription of Atom's weights loses on the layer of make_weight_only.py.

    make_atom.py > atom.json

Atom (arXiv 2310.19102, section 4; public code of its authors): inputs in ascending order of the sum of squares; GPTQ in
that order; the last `tail` inputs symmetric INT8 with a scale for each row, the others symmetric 4 (3) bits in groups of
64 with clip 0.85; damp 0.01. Losses as in weight_only.json. "tail": the outlying inputs, ascending.
"""
import json

import numpy as np

from make_weight_only import INPUTS, ROWS, damped, fp16, make_layer, output_loss

GROUP, TAIL, CLIP = 64, 16, 0.85


def symmetric(column, scale, low, top):
    return np.clip(np.rint(column / scale), low, top) * scale


def atom(w, hessian, bits, rotate=None):
    """Weights and Hessian in Atom's order (rotated), and the rounded weights."""
    order = np.argsort(np.diag(hessian), kind="stable")
    w, hessian = w[:, order], hessian[np.ix_(order, order)]
    head = INPUTS - TAIL
    if rotate is not None:
        full = np.eye(INPUTS)
        full[:head, :head] = rotate(head)
        w, hessian = w @ full, full.T @ hessian @ full
    top = 2 ** (bits - 1) - 1
    scales = np.empty((ROWS, INPUTS))
    for row in range(ROWS):
        for begin in range(0, head, GROUP):
            end = min(head, begin + GROUP)
            scales[row, begin:end] = fp16(CLIP * np.abs(w[row, begin:end]).max() / top)
        scales[row, head:] = fp16(np.abs(w[row, head:]).max() / 127)
    upper = np.linalg.cholesky(np.linalg.inv(damped(hessian))).T
    rest, result = w.copy(), np.empty_like(w)
    for j in range(INPUTS):
        low_top = (-top - 1, top) if j < head else (-127, 127)
        result[:, j] = symmetric(rest[:, j], scales[:, j], *low_top)
        rest[:, j:] -= np.outer((rest[:, j] - result[:, j]) / upper[j, j], upper[j, j:])
    return w, result, hessian, order


def sylvester(size):
    h = np.array([[1.0]])
    while len(h) < size:
        h = np.block([[h, h], [h, -h]])
    return h / np.sqrt(size)


def blocks_of_16(head):
    return np.kron(np.eye(head // 16), sylvester(16))


def main():
    w, hessian = make_layer()
    result = {}
    for bits in (4, 3):
        turned, rounded, moved, order = atom(w, hessian, bits)
        result[f"int{bits}"] = {"atom": output_loss(turned, rounded, moved)}
        turned, rounded, moved, _ = atom(w, hessian, bits, blocks_of_16)
        result[f"int{bits}"]["atom rotated"] = output_loss(turned, rounded, moved)
    result["tail"] = [int(i) for i in order[-TAIL:]]
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
