#!/usr/bin/env python3
"""Times the same step as `nibble tune --stage bqpo` in PyTorch: one block of Llama's, weights fake-quantized to 4 bits in groups
of 128 (LSQ), bf16 autocast, squared error, AdamW over weights and scales, gradients clipped.

    bench/tuning_peer.py [--shapes 7B,13B] [--seq-len 2048] [--batch 2] [--steps 20] [--compiled]

Prints seconds per step (median), tokens/s and the peak of PyTorch's allocator.
"""
import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

SHAPES = {"7B": (4096, 11008, 32), "13B": (5120, 13824, 40)}
GROUP = 128


def rounded(x):
    return x + (x.round() - x).detach()


class Linear(nn.Module):
    def __init__(self, k, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n, k) * 0.02)
        self.log_scale = nn.Parameter((self.weight.detach().view(n, -1, GROUP).abs().amax(-1, keepdim=True) / 8).log())

    def forward(self, x):
        scale = self.log_scale.exp()
        scale = scale + (scale.half().float() - scale).detach()
        steps = (self.weight.view(self.weight.shape[0], -1, GROUP) / scale)
        weight = (rounded(steps.clamp(-8, 7)) * scale).view_as(self.weight)
        return functional.linear(x, weight)


class Block(nn.Module):
    def __init__(self, hidden, ffn, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.ModuleList(Linear(hidden, hidden) for _ in range(3))
        self.out, self.gate, self.up, self.down = Linear(hidden, hidden), Linear(hidden, ffn), Linear(hidden, ffn), Linear(ffn, hidden)

    def forward(self, x, cosine, sine):
        def turned(y):
            first, second = y.chunk(2, -1)
            return y * cosine + torch.cat((-second, first), -1) * sine

        batch, length, hidden = x.shape
        read = functional.rms_norm(x, (hidden,))
        q, k, v = (layer(read).view(batch, length, self.heads, -1).transpose(1, 2) for layer in self.qkv)
        seen = functional.scaled_dot_product_attention(turned(q).to(v.dtype), turned(k).to(v.dtype), v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, hidden))
        read = functional.rms_norm(x, (hidden,))
        return x + self.down(functional.silu(self.gate(read)) * self.up(read))


def measure(shape, options):
    hidden, ffn, heads = SHAPES[shape]
    torch.cuda.reset_peak_memory_stats()
    block = Block(hidden, ffn, heads).cuda()
    optimizer = torch.optim.AdamW(block.parameters(), lr=1e-5, weight_decay=0.0, fused=True)
    forward = torch.compile(block) if options.compiled else block
    angles = torch.outer(torch.arange(options.seq_len), 10000 ** (-torch.arange(0, hidden // heads, 2) / (hidden // heads)))
    cosine, sine = (torch.cat((f(angles), f(angles)), -1).cuda() for f in (torch.cos, torch.sin))
    inputs, targets = (torch.randn(options.batch, options.seq_len, hidden).pin_memory() for _ in range(2))
    seconds = []
    for _ in range(options.steps + 3):
        torch.cuda.synchronize()
        began = time.perf_counter()
        x, target = inputs.cuda(non_blocking=True), targets.cuda(non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            y = forward(x, cosine, sine)
        functional.mse_loss(y.float(), target).backward()
        nn.utils.clip_grad_norm_(block.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    step = statistics.median(seconds[3:])
    print(json.dumps({"shape": shape, "compiled": options.compiled, "batch": options.batch, "seq_len": options.seq_len,
                      "seconds_per_step": step, "tokens_per_s": options.batch * options.seq_len / step,
                      "peak_gib": torch.cuda.max_memory_allocated() / 2**30, "torch": torch.__version__}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="7B,13B")
    for name, value in (("seq-len", 2048), ("batch", 2), ("steps", 20)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--compiled", action="store_true")
    options = parser.parse_args()
    for shape in options.shapes.split(","):
        measure(shape, options)


if __name__ == "__main__":
    main()
