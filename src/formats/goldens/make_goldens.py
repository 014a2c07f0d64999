#!/usr/bin/env python3
"""Writes formats.json: weights, and what an independent NumPy implementation makes of them.

    make_goldens.py PATH_TO_quantref.py > formats.json

`cases` hold codes, scales and zero points of small matrices; `errors` hold the relative mean squared
error of each convention on 2^18 numbers from three distributions that C++ can produce bit by bit
(statistics_test.cpp). quantref gives scales, zero points, books and rounding; rounding the scale to fp16
before codes are chosen is done here.
"""
import importlib.util
import json
import sys

import numpy as np

RANGE_CONVENTIONS = {"sym": "full_sym", "asym": "gptq_asym"}
CASES = (
    "int2-sym-g16", "int2-asym-g16", "int3-sym-g32", "int3-asym-g40", "int4-sym-g32", "int4-asym-g32",
    "int4-sym-row", "int4-asym-g128", "int8-sym-row", "int8-sym-g32", "int8-asym-g32",
    "lut4-nf4-g32", "lut4-nf4-row", "lut4-fp4-g32", "mxfp4")
ERROR_GROUPS = (16, 32, 64, 128, 256)
ERROR_COUNT = 1 << 18


def load(path):
    spec = importlib.util.spec_from_file_location("quantref", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fp16(scale):
    return np.float64(np.float16(scale))


def quantize_integers(ref, w, bits, symmetry):
    if symmetry == "sym" and bits == 8:  # absmax / 127, as LLM.int8()
        scale, zero, low, high = np.abs(w).max() / 127, 128, 1, 255
        return fp16(scale), zero, np.clip(ref.rne(w / fp16(scale)) + zero, low, high)
    scale, _, low, high = ref.rtn_params(w, RANGE_CONVENTIONS[symmetry], bits)
    scale = fp16(scale[0])
    if symmetry == "sym":
        zero = 2 ** (bits - 1)
        return scale, zero, np.clip(ref.rne(w / scale), low, high) + zero
    zero = np.clip(ref.rne(-min(w.min(), 0) / scale), 0, high)
    return scale, int(zero), np.clip(ref.rne(w / scale) + zero, 0, high)


def quantize_book(ref, w, book):
    values, scale = ref.lut_absmax(w[None], book, len(w), fp16)
    ratio = values[0] / scale[0, 0]
    return scale[0, 0], 0, np.argmin(np.abs(ratio[:, None] - book), axis=1)


def quantize_mx(ref, w):
    values, exponent = ref.mxfp4(w[None], "even")
    scale = 2.0 ** (exponent[0, 0] - 127)
    magnitude = np.argmin(np.abs(np.abs(values[0] / scale)[:, None] - ref.E2M1[:8]), axis=1)
    return scale, 0, magnitude + 8 * np.signbit(values[0])


def quantize_group(ref, w, scheme):
    words = scheme.split("-")
    if words[0] == "mxfp4":
        return quantize_mx(ref, w)
    if words[0] == "lut4":
        return quantize_book(ref, w, {"nf4": ref.NF4, "fp4": ref.E2M1}[words[1]])
    return quantize_integers(ref, w, int(words[0][3:]), words[1])


def group_of(scheme, k):
    last = scheme.split("-")[-1]
    return 32 if scheme == "mxfp4" else k if last == "row" else int(last[1:])


def case(ref, weights, scheme):
    group = group_of(scheme, weights.shape[1])
    result = {"scheme": scheme, "codes": [], "scales": [], "zeros": []}
    for row in weights:
        starts = range(0, len(row), group)
        scales, zeros, codes = zip(*(quantize_group(ref, row[i:i + group], scheme) for i in starts))
        result["codes"].append("".join(f"{int(code):02x}" for part in codes for code in part))
        result["scales"].append([float(scale) for scale in scales])
        result["zeros"].append([int(zero) for zero in zeros])
    return result


def matrices(ref):
    normal = ref.gen((3, 96), 11)
    tail = ref.gen((2, 160), 12) ** 3
    single = np.float32(0.02) * np.float32(normal)
    short = np.float32(ref.gen((2, 83), 13))  # no group size divides 83
    positive = np.abs(np.float32(ref.gen((2, 64), 14))) + np.float32(0.25)
    return {"normal": single, "heavy tail": np.float32(tail), "odd length": short, "all positive": positive}


def numbers(seed, count):
    """SplitMix64, `count` sums of twelve 16-bit numbers: nearly N(0, 1) and exact in float32."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, 3 * count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    parts = sum((z >> np.uint64(shift)) & np.uint64(0xFFFF) for shift in (0, 16, 32, 48))
    return (parts.reshape(count, 3).sum(axis=1).astype(np.float64) - 6 * 65535) / 65536


def distributions():
    """The same numbers as statistics_test.cpp makes: products, sums, one division, one square root."""
    n = numbers(21, ERROR_COUNT)
    a, b, c, d = numbers(22, 4 * ERROR_COUNT).reshape(-1, 4).T
    x = numbers(23, 6 * ERROR_COUNT).reshape(-1, 6).T
    squares = x[1] * x[1] + x[2] * x[2] + x[3] * x[3] + x[4] * x[4] + x[5] * x[5]
    return {"normal": np.float32(n), "laplace": np.float32(a * b - c * d),
            "t5": np.float32(x[0] / np.sqrt(squares))}


def relative_error(w, decoded):
    return float(((decoded - w) ** 2).sum() / (w**2).sum())


def errors(ref):
    table = {}
    for name, sample in distributions().items():
        w = sample.astype(np.float64).reshape(-1, 4096)
        row = {}
        for group in ERROR_GROUPS:
            row[f"int4-sym-g{group}"] = relative_error(w, ref.rtn(w, "full_sym", group)[0])
            row[f"int4-asym-g{group}"] = relative_error(w, ref.rtn(w, "gptq_asym", group)[0])
            row[f"lut4-nf4-g{group}"] = relative_error(w, ref.lut_absmax(w, ref.NF4, group)[0])
            row[f"lut4-fp4-g{group}"] = relative_error(w, ref.lut_absmax(w, ref.E2M1, group)[0])
        row["mxfp4"] = relative_error(w, ref.mxfp4(w, "even")[0])
        table[name] = row
    return table


def main():
    ref = load(sys.argv[1])
    groups = []
    for name, weights in matrices(ref).items():
        n, k = weights.shape
        schemes = [scheme for scheme in CASES if scheme != "mxfp4" or k % 32 == 0]
        groups.append({"name": name, "n": n, "k": k,
                       "weights": [float(w) for w in weights.ravel()],
                       "cases": [case(ref, weights.astype(np.float64), scheme) for scheme in schemes]})
    matrices_text = ",\n".join(json.dumps(group) for group in groups)
    print(f'{{"matrices": [\n{matrices_text}],\n"errors": {json.dumps(errors(ref))}}}')


if __name__ == "__main__":
    main()
