#!/usr/bin/env python3
"""Writes fp8.json: E4M3 weights by ml_dtypes.float8_e4m3fn (PyPI, ml_dtypes 0.6.0).

    make_fp8.py > fp8.json

`values`: what each byte stands for (NaN left out). `roundings`: float32 values and their bytes; ml_dtypes makes
NaN of what is too large, so values are cut to +-448 first. `matrices`: scales and codes of small matrices, for
each row and for the whole matrix; the scale is fp16(max|w| / 448), the next larger one where more than 464 of it
would be needed.
"""
import json

import ml_dtypes
import numpy as np

from make_goldens import numbers

LARGEST = np.float32(448)


def codes_of(values):
    cut = np.clip(np.float32(values), -LARGEST, LARGEST)
    return cut.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


def scale_of(weights):
    largest = np.float64(np.abs(weights).max())
    scale = np.maximum(np.float16(largest / 448), np.float16(2.0**-24))
    return np.nextafter(scale, np.float16(np.inf)) if largest > 464 * np.float64(scale) else scale


def quantize(w, granularity):
    rows = w if granularity == "row" else w.reshape(1, -1)
    scales = np.float32([scale_of(row) for row in rows])
    return scales, codes_of(rows / scales[:, None]).reshape(w.shape)


def roundings():
    """All values, what lies between two of them and its neighbours, and what is beyond."""
    values = np.arange(127, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    between = (values[1:] + values[:-1]) / 2
    some = np.concatenate([values, between, np.nextafter(between, np.float32(0)),
                           np.nextafter(between, np.float32(1e9)), np.float32([460, 464, 465, 1e6, 1e-12])])
    return np.concatenate([some, -some])


def matrices():
    normal = np.float32(numbers(71, 3 * 96)).reshape(3, 96)
    heavy = np.float32(normal**5)
    small = np.float32(normal * np.float32([[1e-2], [1e-4], [1e-7]]))  # scales are subnormal in fp16
    zeros = np.zeros((2, 40), np.float32)
    return {"normal": normal, "heavy": heavy, "small": small, "zeros": zeros}


def main():
    values = roundings()
    result = {
        "values": [float(v) for v in np.arange(127, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)],
        "roundings": {"values": [float(v) for v in values], "bytes": codes_of(values).tobytes().hex()},
        "matrices": []}
    for name, w in matrices().items():
        for granularity in ("row", "tensor"):
            scales, codes = quantize(w, granularity)
            result["matrices"].append({
                "name": name, "scheme": f"fp8-{granularity}", "n": w.shape[0], "k": w.shape[1],
                "weights": [float(x) for x in w.ravel()], "scales": [float(s) for s in scales],
                "codes": codes.tobytes().hex()})
    print(json.dumps(result))


main()
