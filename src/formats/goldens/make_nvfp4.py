#!/usr/bin/env python3
"""Writes nvfp4.json: NVFP4 by an independent NumPy transcription.

    make_nvfp4.py > nvfp4.json

`e4m3`: values and the E4M3 bytes nearest to them, found by comparing with all 127 values. `matrices`:
global scale, scale bytes and codes of small matrices, plain and four-over-six. `errors`: relative mean
squared error on the 2^18 nearly normal numbers of make_goldens.py (seed 21).
"""
import json

import numpy as np

from make_goldens import numbers

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
# Sign-less bytes 0 to 0x7e: subnormals m * 2^-9, then (8 + m) * 2^(e - 10).
E4M3 = np.array([m * 2.0**-9 if e == 0 else (8 + m) * 2.0 ** (e - 10) for e in range(16) for m in range(8)][:127])
GROUP = 16
ROOM = {"plain": 448, "four over six": 256}


def nearest(values, table):
    """Index of the nearest entry; of two at one distance the even one. Beyond the table: its end."""
    distance = np.abs(np.minimum(np.asarray(values, np.float64), table[-1])[..., None] - table)
    ties = distance == distance.min(axis=-1, keepdims=True)
    return np.where(ties, np.arange(len(table)) % 2, 2).argmin(axis=-1)


def global_scale(w, rule):
    return np.float32(np.abs(w).max() / (6 * ROOM[rule]))


def with_scale(w, global_, wanted):
    """Bytes, float32 scales, codes and decoded values of groups [..., 16] whose scales should be `wanted`."""
    byte = np.maximum(nearest(wanted / np.float64(global_), E4M3), 1)
    scale = np.float64(np.float32(E4M3[byte]) * global_)[..., None]
    magnitude = nearest(np.abs(w) / scale, E2M1)
    decoded = np.where(np.signbit(w), -1, 1) * E2M1[magnitude] * scale
    return byte, magnitude + 8 * np.signbit(w), decoded


def quantize(w, rule):
    groups = np.float64(w).reshape(-1, GROUP)
    global_ = global_scale(w, rule)
    largest = np.abs(groups).max(axis=1)
    byte, codes, decoded = with_scale(groups, global_, largest / 6)
    if rule == "four over six":
        byte4, codes4, decoded4 = with_scale(groups, global_, largest / 4)
        better = ((decoded4 - groups) ** 2).sum(axis=1) < ((decoded - groups) ** 2).sum(axis=1)
        byte = np.where(better, byte4, byte)
        codes = np.where(better[:, None], codes4, codes)
        decoded = np.where(better[:, None], decoded4, decoded)
    return float(global_), byte, codes, decoded


def matrices():
    normal = np.float32(numbers(61, 3 * 96)).reshape(3, 96)
    heavy = np.float32(normal**5)
    heavy[1:] *= np.float32([[1e-3], [1e-5]])  # scales reach down through the subnormals of E4M3
    small = np.float32(normal * np.float32(0.0123))
    gap = normal.copy()
    gap[0, :16] = 0
    gap[1, 16:32] *= np.float32(1e-7)  # below half of the smallest scale
    return {"normal": normal, "heavy tail": heavy, "small": small, "zeros": gap}


def e4m3_cases():
    middles = (E4M3[1:] + E4M3[:-1]) / 2  # ties
    values = np.concatenate([E4M3, middles, np.nextafter(middles, 0), np.nextafter(middles, 1e9),
                             [2.0**-11, 1e-300, 455.0, 464.0, 480.0, 1e30]])
    return {"values": values.tolist(), "bytes": nearest(values, E4M3).tolist()}


def hex_of(values):
    return "".join(f"{int(value):02x}" for value in values.ravel())


def main():
    cases = []
    for name, w in matrices().items():
        rules = {}
        for rule in ROOM:
            global_, byte, codes, _ = quantize(w, rule)
            rules[rule] = {"global": global_, "scales": hex_of(byte), "codes": hex_of(codes)}
        cases.append({"name": name, "n": w.shape[0], "k": w.shape[1], "weights": w.ravel().astype(float).tolist(),
                      "rules": rules})
    w = np.float32(numbers(21, 1 << 18))
    errors = {rule: float(((quantize(w, rule)[3].ravel() - w) ** 2).sum() / (np.float64(w) ** 2).sum()) for rule in ROOM}
    print(json.dumps({"e4m3": e4m3_cases(), "matrices": cases, "errors": errors}))


if __name__ == "__main__":
    main()
