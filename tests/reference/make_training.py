#!/usr/bin/env python3
"""Prints training.json: gradients of fake quantization, steps of AdamW, and learning rates, by PyTorch.

    make_training.py > training.json

Gradients come from autograd over a round with a straight-through gradient and a clamp (what EfficientQAT's and
BRECQ's quantizers are made of); the scale is a parameter by its logarithm, stored as float16. AdamW, clipping and the
schedules are torch.optim's own. Needs torch.
"""
import json

import torch

CASES = [(2, True, 8), (3, True, 8), (4, True, 12), (8, True, 24), (2, False, 8), (4, False, 8), (8, False, 24)]
ROWS, INPUTS = 3, 24


class Straight(torch.autograd.Function):
    """f(x), whose gradient is that of x. (x + (f(x) - x).detach() is not f(x) to the last bit, which clamp would see.)"""

    @staticmethod
    def forward(_, x, f):
        return f(x)

    @staticmethod
    def backward(_, gradient):
        return gradient, None


def round_ste(x):
    return Straight.apply(x, torch.round)


def half_ste(x):
    return Straight.apply(x, lambda value: value.half().float())


def numbers(tensor):
    return [float(f"{value:.9g}") for value in tensor.flatten().tolist()]


def quantizer_case(bits, has_zeros, group):
    w = torch.randn(ROWS, INPUTS)
    groups = INPUTS // group
    last = 2 ** bits - 1
    blocks = w.reshape(ROWS, groups, group)
    if has_zeros:
        scale = (blocks.amax(2).clamp(min=0) - blocks.amin(2).clamp(max=0)) / last * (0.55 + 0.6 * torch.rand(ROWS, groups))
        zero = (-blocks.amin(2) / scale).clamp(0, last) + 0.8 * torch.rand(ROWS, groups) - 0.4
        first = 0
    else:
        extreme = blocks.gather(2, blocks.abs().argmax(2, keepdim=True)).squeeze(2)
        scale = (extreme.abs() / 127 if bits == 8 else -extreme / 2 ** (bits - 1)) * (0.55 + 0.6 * torch.rand(ROWS, groups))
        zero = torch.full_like(scale, 2 ** (bits - 1))
        first = 1 if bits == 8 else 0
    sign = scale.sign()
    logarithm = scale.abs().log()
    for parameter in (w, logarithm, zero):
        parameter.requires_grad_()
    s = half_ste(sign * logarithm.exp()).unsqueeze(2)
    z = round_ste(zero).unsqueeze(2) if has_zeros else zero.detach().unsqueeze(2)
    codes = round_ste(w.reshape(ROWS, groups, group) / s) + z
    # torch.clamp; whether that has a slope at its bounds themselves depends on the version. Here it has.
    codes = torch.where(codes < first, torch.full_like(codes, first), torch.where(codes > last, torch.full_like(codes, last), codes))
    values = ((codes - z) * s).reshape(ROWS, INPUTS)
    upstream = torch.randn(ROWS, INPUTS)
    (values * upstream).sum().backward()
    return {"scheme": f"int{bits}-{'asym' if has_zeros else 'sym'}-g{group}", "weights": numbers(w),
            "scales": numbers(s), "logarithms": numbers(logarithm), "zeros": numbers(zero), "values": numbers(values),
            "upstream": numbers(upstream), "d_weights": numbers(w.grad), "d_logarithms": numbers(logarithm.grad),
            "d_zeros": numbers(zero.grad) if has_zeros else []}


def adamw_case(clip, decay):
    """Two parameters, of which the first decays and the second has three times the rate."""
    values = [torch.randn(5), torch.randn(3)]
    start = [numbers(v) for v in values]
    parameters = [v.clone().requires_grad_() for v in values]
    optimizer = torch.optim.AdamW([{"params": [parameters[0]], "lr": 1e-2, "weight_decay": decay},
                                   {"params": [parameters[1]], "lr": 3e-2, "weight_decay": 0.0}], betas=(0.9, 0.95))
    steps = []
    for step in range(6):
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter) * (0.2 if step % 2 else 2.0)
        gradients = [numbers(p.grad) for p in parameters]
        norm = torch.nn.utils.clip_grad_norm_(parameters, clip) if clip else torch.cat([p.grad for p in parameters]).norm()
        optimizer.step()
        steps.append({"gradients": gradients, "norm": float(norm), "values": [numbers(p.detach()) for p in parameters]})
    return {"clip": clip, "decay": decay, "start": start, "steps": steps}


def rates(kind, steps, warmup, last):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=2.0)
    lr = torch.optim.lr_scheduler
    behind = lr.LinearLR(optimizer, 1.0, last, steps - warmup) if kind == "linear" else \
        lr.CosineAnnealingLR(optimizer, steps - warmup, eta_min=2.0 * last)
    schedule = lr.SequentialLR(optimizer, [lr.LambdaLR(optimizer, lambda i: (i + 1) / warmup), behind], [warmup]) if warmup else behind
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return {"decay": kind, "steps": steps, "warmup": warmup, "last": last, "rates": found}


def main():
    torch.manual_seed(7)
    print(json.dumps({
        "fake_quantizer": [quantizer_case(*case) for case in CASES],
        "adamw": [adamw_case(0.0, 0.0), adamw_case(1.0, 0.1)],
        "learning_rate": [rates("cosine", 8, 0, 0.0), rates("cosine", 9, 3, 0.1), rates("linear", 8, 0, 0.0),
                          rates("linear", 7, 2, 0.05)],
    }, indent=None, separators=(",", ":")).replace('{"scheme"', '\n{"scheme"').replace('{"clip"', '\n{"clip"').replace('{"decay"', '\n{"decay"'))


if __name__ == "__main__":
    main()
