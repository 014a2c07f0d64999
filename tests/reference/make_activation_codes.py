#!/usr/bin/env python3
"""Writes activation_codes.json: integers of quantized activations by the formulas of Atom (arXiv 2310.19102, section 4)
and QuaRot (arXiv 2404.00456, section 4), in NumPy float32.

    python3 tests/reference/make_activation_codes.py

Inputs are split_mix_normals(seed, rows * k) of src/formats/split_mix.h, times 1 + 2 (i mod 7). Each case gives, row by
row, the sum of (q - z) (i + 1), the scales, and the first q - z.
"""

import json
import pathlib

import numpy as np

from make_weight_only import split_mix_normals

F = np.float32


def quantize(x, bits, symmetric, clip):
    """x: what shares a scale. Returns q - z and the scale."""
    clip = F(clip)
    if symmetric:
        top = 2 ** (bits - 1) - 1
        reach = clip * np.max(np.abs(x))
        q = np.rint(x * (F(top) / reach)).astype(np.int64)
        return np.clip(q, -8 if bits == 4 else -127, top), reach / F(top)
    last = F(2**bits - 1)
    low, high = clip * min(x.min(), F(0)), clip * max(x.max(), F(0))
    scale = high / last - low / last
    inverse = F(1) / scale
    zero = int(np.rint(-low * inverse))
    q = np.clip(np.rint(x * inverse).astype(np.int64) + zero, 0, int(last))
    return q - zero, scale


def main():
    cases = []
    for seed, (k, group, bits, symmetric, clip) in enumerate(
            [(96, 0, 4, True, 1), (96, 32, 4, True, 0.9), (200, 64, 4, True, 0.5), (96, 0, 4, False, 1),
             (200, 64, 4, False, 0.85), (96, 0, 8, False, 1), (200, 32, 8, False, 0.9), (200, 128, 8, True, 0.95)]):
        rows = 3
        x = split_mix_normals(seed + 100, rows * k).astype(F) * (1 + 2 * (np.arange(rows * k) % 7)).astype(F)
        x = x.reshape(rows, k)
        x[2] = np.abs(x[2])  # one sign: the range still contains 0
        lines = []
        for row in x:
            width = group or k
            parts = [quantize(row[b:b + width], bits, symmetric, clip) for b in range(0, k, width)]
            codes = np.concatenate([p[0] for p in parts])
            lines.append({
                "checksum": int(np.sum(codes * (np.arange(k) + 1))),
                "first": [int(c) for c in codes[:12]],
                "scales": [float(p[1]) for p in parts]
            })
        cases.append({"seed": seed + 100, "k": k, "group": group, "bits": bits, "symmetric": symmetric, "clip": clip,
                      "rows": lines})
    path = pathlib.Path(__file__).with_name("activation_codes.json")
    path.write_text(json.dumps(cases, indent=1) + "\n")


main()
