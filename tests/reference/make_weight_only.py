#!/usr/bin/env python3
"""Prints weight_only.json: what NumPy transcriptions of weight-only methods lose on one layer.

    make_weight_only.py > weight_only.json

Written from the papers in float64, the plain way: no blocks, no shared code with the program.
Layer: 24 outputs, 256 inputs; data from SplitMix64, which C++ makes bit by bit as well. Losses are
relative: tr(E H E^T) / tr(W H W^T) ("output"), or the same with only the diagonal of H
("diagonal"). Scales are rounded to fp16, zeros are integers.
"""
import json

import numpy as np

ROWS, INPUTS, TOKENS, GROUP, DAMP = 24, 256, 1024, 64, 0.01


def split_mix_normals(seed, count):
    """Sums of twelve 16-bit uniform numbers, exact in float32 (Steele, Lea and Flood 2014)."""
    mask, values = (1 << 64) - 1, []
    for _ in range(count):
        total = -6 * 65535
        for _ in range(3):
            seed = (seed + 0x9E3779B97F4A7C15) & mask
            z = seed
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
            z ^= z >> 31
            total += (z & 0xFFFF) + (z >> 16 & 0xFFFF) + (z >> 32 & 0xFFFF) + (z >> 48)
        values.append(total / 65536)
    return np.array(values)


def make_weights():
    w = split_mix_normals(1, ROWS * INPUTS).reshape(ROWS, INPUTS)
    return w * (1 + w * w / 4)  # heavy tails


def make_inputs():
    noise = split_mix_normals(2, TOKENS * INPUTS).reshape(TOKENS, INPUTS)
    x = np.zeros_like(noise)
    shared = np.zeros(TOKENS)
    for j in range(INPUTS):
        shared = 0.5 * shared + noise[:, j]
        x[:, j] = shared * (4.0 if j % 11 == 0 else 1.0)
    return x


def make_layer():
    x = make_inputs()
    return make_weights(), x.T @ x


def fp16(scale):
    return np.float64(np.float16(scale))


def fp16_array(scales):
    return scales.astype(np.float16).astype(np.float64)


def nearest(w, scale, zero, bits):
    return (np.clip(np.rint(w / scale + zero), 0, 2 ** bits - 1) - zero) * scale


def range_parameters(group, bits, factor):
    """[min, max], widened to hold 0, times a factor; one scale and integer zero."""
    low, high = min(group.min(), 0) * factor, max(group.max(), 0) * factor
    scale = fp16((high - low) / (2 ** bits - 1))
    return scale, np.clip(np.rint(-low / scale), 0, 2 ** bits - 1)


def search(w, h, bits, factors):
    """Weighted range search: the factor with the least sum of E[x^2] e^2."""
    parameters = {}
    for r in range(ROWS):
        for g in range(0, INPUTS, GROUP):
            cells = w[r, g:g + GROUP]
            tried = [range_parameters(cells, bits, f) for f in factors]
            losses = [(h[g:g + GROUP] * (cells - nearest(cells, *p, bits)) ** 2).sum() for p in tried]
            parameters[r, g] = tried[int(np.argmin(losses))]
    return parameters


def integer_quantizer(parameters, bits):
    scale = np.array([[parameters[r, j // GROUP * GROUP][0] for j in range(INPUTS)] for r in range(ROWS)])
    zero = np.array([[parameters[r, j // GROUP * GROUP][1] for j in range(INPUTS)] for r in range(ROWS)])
    return lambda column, j: nearest(column, scale[:, j], zero[:, j], bits)


def kmeans(values, weights, clusters):
    """Optimal 1-D k-means by the quadratic dynamic program (Wang and Song 2011)."""
    order = np.argsort(values)
    v, w = values[order], weights[order]
    n = len(v)
    zeroth, first, second = (np.concatenate([[0], np.cumsum(t)]) for t in (w, w * v, w * v * v))

    def cost(i, j):
        return second[j] - second[i] - (first[j] - first[i]) ** 2 / (zeroth[j] - zeroth[i])

    best = np.array([0] + [cost(0, j) for j in range(1, n + 1)])
    cuts = []
    for _ in range(clusters - 1):
        new, cut = best.copy(), np.arange(n + 1)
        for j in range(1, n + 1):
            i = np.arange(j)
            total = best[:j] + cost(i, j)
            at = int(total.argmin())
            if total[at] < new[j]:
                new[j], cut[j] = total[at], at
        best = new
        cuts.append(cut)
    centres, end = [], n
    for cut in reversed(cuts):
        begin = cut[end]
        if begin < end:
            centres.append((first[end] - first[begin]) / (zeroth[end] - zeroth[begin]))
        end = begin
    centres.append(first[end] / zeroth[end])
    return np.sort(np.array(centres))


def any4(w, h):
    """Books of 16 per row by exact k-means; a group's scale is its element of largest magnitude."""
    scale = np.empty_like(w)
    books = []
    for r in range(ROWS):
        for g in range(0, INPUTS, GROUP):
            cells = w[r, g:g + GROUP]
            scale[r, g:g + GROUP] = fp16(cells[np.abs(cells).argmax()])
        books.append(kmeans(w[r] / scale[r], h * scale[r] ** 2, 16))

    def quantize(column, j):
        u = column / scale[:, j]
        return np.array([b[np.abs(b - t).argmin()] for b, t in zip(books, u)]) * scale[:, j]
    return quantize


def all_columns(w, quantize):
    return np.stack([quantize(w[:, j], j) for j in range(INPUTS)], axis=1)


def damped(h):
    return h + DAMP * np.mean(np.diag(h)) * np.eye(INPUTS)


def gptq(w, h, quantize):
    """GPTQ, Algorithm 1, inputs in descending order of the diagonal, parameters given."""
    order = np.argsort(-np.diag(h), kind="stable")
    upper = np.linalg.cholesky(np.linalg.inv(damped(h)[np.ix_(order, order)])).T
    rest, result = w[:, order].copy(), np.empty_like(w)
    for i, j in enumerate(order):
        result[:, j] = quantize(rest[:, i], j)
        rest[:, i:] -= np.outer((rest[:, i] - result[:, j]) / upper[i, i], upper[i, i:])
    return result


def descend(w, rounded, h, quantize, sweeps):
    """Cyclic coordinate descent over the inputs (QuantEase, section 3)."""
    h, rounded = damped(h), rounded.copy()
    for _ in range(sweeps):
        for j in range(INPUTS):
            gradient = (rounded - w) @ h[:, j]
            rounded[:, j] = quantize(rounded[:, j] - gradient / h[j, j], j)
    return rounded


def rounded_by_groups(w, bits):
    rounded = np.empty_like(w)
    for r in range(ROWS):
        for g in range(0, INPUTS, GROUP):
            cells = w[r, g:g + GROUP]
            rounded[r, g:g + GROUP] = nearest(cells, *range_parameters(cells, bits, 1.0), bits)
    return rounded


def awq_scales(w, mean_magnitude, h, bits):
    """AWQ, section 3.2: s = mean|x|^r, r of 0, 1/20, ..., with the least error of the outputs."""
    tried = [mean_magnitude ** (step / 20) for step in range(20)]
    tried = [s / np.sqrt(s.max() * s.min()) for s in tried]
    return tried[int(np.argmin([output_loss(w, rounded_by_groups(w * s, bits) / s, h) for s in tried]))]


def awq_clip(w, h, bits):
    """AWQ's public code: each group in [-m, m], m of 1, 0.95, ..., 0.55 times its largest weight, with the least error
    of the group's part of the outputs."""
    clipped = w.copy()
    for r in range(ROWS):
        for g in range(0, INPUTS, GROUP):
            cells, own = w[r, g:g + GROUP], h[g:g + GROUP, g:g + GROUP]
            limits = np.abs(cells).max() * (1 - np.arange(10) / 20)
            errors = []
            for limit in limits:
                inside = np.clip(cells, -limit, limit)
                e = cells - nearest(inside, *range_parameters(inside, bits, 1.0), bits)
                errors.append(e @ own @ e)
            limit = limits[int(np.argmin(errors))]
            clipped[r, g:g + GROUP] = np.clip(cells, -limit, limit)
    return clipped


def awq(w, mean_magnitude, h, bits):
    """What the outputs lose with the scales alone, and with the clipping after them."""
    s = awq_scales(w, mean_magnitude, h, bits)
    scaled, moved = w * s, h / np.outer(s, s)
    return (output_loss(scaled, rounded_by_groups(scaled, bits), moved),
            output_loss(scaled, rounded_by_groups(awq_clip(scaled, moved, bits), bits), moved))


def output_loss(w, rounded, h):
    return float(np.einsum("ij,jk,ik", w - rounded, h, w - rounded) / np.einsum("ij,jk,ik", w, h, w))


def main():
    w, hessian = make_layer()
    mean_magnitude = np.abs(make_inputs()).mean(axis=0)
    diagonal = np.diag(hessian)
    flat = np.diag(diagonal)
    losses = {}
    for bits in (3, 4):
        rtn = integer_quantizer(search(w, diagonal, bits, [1.0]), bits)
        found = integer_quantizer(search(w, diagonal, bits, 1 - np.arange(80) / 100), bits)
        losses[f"int{bits}-asym-g{GROUP}"] = {
            "rtn diagonal": output_loss(w, all_columns(w, rtn), flat),
            "search diagonal": output_loss(w, all_columns(w, found), flat),
            "gptq output": output_loss(w, gptq(w, hessian, rtn), hessian),
            "search gptq output": output_loss(w, gptq(w, hessian, found), hessian),
            "search gptq descent output": output_loss(
                w, descend(w, gptq(w, hessian, found), hessian, found, 2), hessian)}
        scales, both = awq(w, mean_magnitude, hessian, bits)
        losses[f"int{bits}-asym-g{GROUP}"].update({"awq scales output": scales, "awq output": both})
    learned = any4(w, diagonal)
    losses[f"lut4-row-g{GROUP}"] = {
        "rtn diagonal": output_loss(w, all_columns(w, learned), flat),
        "gptq output": output_loss(w, gptq(w, hessian, learned), hessian),
        "gptq descent output": output_loss(
            w, descend(w, gptq(w, hessian, learned), hessian, learned, 2), hessian)}
    print(json.dumps(losses, indent=1))


if __name__ == "__main__":
    main()
