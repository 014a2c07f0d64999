#!/usr/bin/env python3
"""Times what PyTorch has beside our kernels on a GPU, in lines like those of cuda_linear_bench and cuda_gemm_bench.

    bench/cuda_peers.py [NAME...] [TOKENSxROWSxINPUTS...]     names: bf16 fp16 int4pack int_mm scaled_mm sdpa prompt;
                                                              default: all, and shapes that are built in

Replays CUDA graphs of calls that take the next of as many copies of the weights as would fill the L2 cache eight
times; the median after the clocks have settled. Products: bf16 and fp16 (cuBLAS; bf16 also the layers of a
Llama-2-7B), int4pack (_weight_int4pack_mm, INT4 in groups of 128), int_mm (_int_mm, INT8) and scaled_mm (_scaled_mm, FP8 with a scale for each token and row). sdpa: one
step of 64 sequences with 4096 tokens in the cache, 32 query heads over 8 KV heads of 128, by each back end. prompt: the
linear layers of a Llama-2-7B for 2048 tokens in bfloat16, alone and with attention. What this PyTorch or GPU does not
have is said in its line.
"""
import re
import statistics
import sys

import torch
import torch.nn.functional as functional

GROUP = 128
SHAPE = re.compile(r"\d+x\d+x\d+")
FEW = [(m, n, k) for n, k in [(4096, 4096), (14336, 4096), (4096, 11008), (28672, 8192)]
       for m in [1, 4, 8, 16, 32, 64]]
DENSE = [(m, n, k) for n, k in [(4096, 4096), (11008, 4096), (4096, 11008), (12288, 4096), (22016, 4096), (32000, 4096)]
         for m in [1, 16, 32, 64, 512, 2048]]
MANY = [(65, 4096, 4096), (128, 4096, 4096), (256, 4096, 4096), (512, 4096, 4096), (1024, 4096, 4096),
        (128, 28672, 8192), (512, 28672, 8192), (4096, 8192, 8192), (8192, 8192, 8192)]
MOST_TOKENS_OF_INT4PACK = 128  # it is made for few
DEVICE = "cuda"


def median_seconds(call, work):
    """Seconds of call(turn): graphs of some turns, replayed until clocks have settled."""
    turns = int(min(200, max(4, 4e12 / work)))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for turn in range(3):
            call(turn)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for turn in range(turns):
            call(turn)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    seconds = []
    while sum(seconds) * turns < (0.1 if work > 2e11 else 0.02) or len(seconds) < 4:
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        seconds.append(begin.elapsed_time(end) / 1e3 / turns)
    return statistics.median(seconds[len(seconds) // 3:])


def read_bandwidth():
    """Bytes per second of the faster of two reductions over 2 GB."""
    values = torch.ones(1 << 29, dtype=torch.float32, device=DEVICE)
    size = values.numel() * values.element_size()
    return max(size / median_seconds(lambda turn: reduce(values), 1e12) for reduce in (torch.sum, torch.amax))


def copies(make, size):
    """make() as often as fills the L2 cache eight times, at least once."""
    cache = 8 * torch.cuda.get_device_properties(0).L2_cache_size
    first = make()
    return [first] + [tuple(part.clone(memory_format=torch.preserve_format) for part in first)
                      for _ in range(max(1, cache // size) - 1)]


# Each gives the bytes of the weights, what makes them, and a call with them.
def float16(m, n, k, dtype):
    x = torch.randn(m, k, dtype=dtype, device=DEVICE)
    return 2 * n * k, lambda: (torch.randn(n, k, dtype=dtype, device=DEVICE),), lambda w: torch.mm(x, w.t())


def bf16(m, n, k):
    return float16(m, n, k, torch.bfloat16)


def fp16(m, n, k):
    return float16(m, n, k, torch.float16)


def int4pack(m, n, k):
    x = torch.randn(m, k, dtype=torch.bfloat16, device=DEVICE)

    def make():
        codes = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8, device=DEVICE)
        scales = torch.full((k // GROUP, n, 2), 0.01, dtype=torch.bfloat16, device=DEVICE)
        return torch.ops.aten._convert_weight_to_int4pack(codes, 8), scales
    return n * k // 2 + 4 * n * k // GROUP, make, \
        lambda w, scales: torch.ops.aten._weight_int4pack_mm(x, w, GROUP, scales)


def int_mm(m, n, k):
    x = torch.randint(-127, 128, (m, k), dtype=torch.int8, device=DEVICE)
    return n * k, lambda: (torch.randint(-127, 128, (n, k), dtype=torch.int8, device=DEVICE),), \
        lambda w: torch._int_mm(x, w.t())


def scaled_mm(m, n, k):
    x = torch.randn(m, k, device=DEVICE).to(torch.float8_e4m3fn)
    of_tokens = torch.full((m, 1), 0.01, device=DEVICE)
    of_rows = torch.full((1, n), 0.01, device=DEVICE)
    return n * k, lambda: (torch.randn(n, k, device=DEVICE).to(torch.float8_e4m3fn),), \
        lambda w: torch._scaled_mm(x, w.t(), scale_a=of_tokens, scale_b=of_rows, out_dtype=torch.bfloat16,
                                   use_fast_accum=True)


def why_not(name, m):
    if name == "int_mm" and m <= 16:
        return "_int_mm takes more than 16 tokens"
    if name == "int4pack" and m > MOST_TOKENS_OF_INT4PACK:
        return f"not timed with more than {MOST_TOKENS_OF_INT4PACK} tokens"
    return None


def first_line(error):
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def report_product(name, problem, m, n, k, limit):
    label = f"{name:<11} m {m:5d} n {n:5d} k {k:5d}"
    reason = why_not(name, m)
    if reason:
        print(f"{label}  not here: {reason}", flush=True)
        return
    try:
        size, make, call = problem(m, n, k)
        weights = copies(make, size)
        work = 2.0 * m * n * k
        seconds = median_seconds(lambda turn: call(*weights[turn % len(weights)]), work)
    except (RuntimeError, AttributeError, NotImplementedError, TypeError, ValueError) as error:
        print(f"{label}  not here: {first_line(error)}", flush=True)
        return
    print(f"{label}  {seconds * 1e6:9.2f} us  {work / seconds / 1e12:7.1f} TOP/s  "
          f"{100 * size / seconds / limit:5.1f} % of reads", flush=True)


def report_decode(limit):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    q = torch.randn(64, 32, 1, 128, dtype=torch.float16, device=DEVICE)
    k, v = (torch.randn(64, 8, 4096, 128, dtype=torch.float16, device=DEVICE) for _ in range(2))
    size = 2 * k.numel() * k.element_size()
    for name in ["CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"]:
        label = f"sdpa decode 64 x 4096, 32/8 x 128, f16, {name:<19}"
        try:
            with sdpa_kernel([getattr(SDPBackend, name)]):
                seconds = median_seconds(
                    lambda turn: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True), 1e11)
        except (RuntimeError, AttributeError, NotImplementedError, TypeError, ValueError) as error:
            print(f"{label}  not here: {first_line(error)}", flush=True)
            continue
        print(f"{label}  {seconds * 1e6:9.2f} us  {100 * size / seconds / limit:5.1f} % of reads", flush=True)


def report_prompt():
    tokens, hidden, ffn, heads, layers, different = 2048, 4096, 11008, 32, 32, 4
    shapes = [(3 * hidden, hidden), (hidden, hidden), (2 * ffn, hidden), (hidden, ffn)]
    weights = [[torch.randn(n, k, dtype=torch.bfloat16, device=DEVICE) for n, k in shapes] for _ in range(different)]
    x = torch.randn(tokens, hidden, dtype=torch.bfloat16, device=DEVICE)
    wide = torch.randn(tokens, ffn, dtype=torch.bfloat16, device=DEVICE)
    q, k, v = (torch.randn(1, heads, tokens, hidden // heads, dtype=torch.bfloat16, device=DEVICE) for _ in range(3))

    def layer(turn, with_attention):
        for weight, inputs in zip(weights[turn % different], [x, x, x, wide]):
            torch.mm(inputs, weight.t())
        if with_attention:
            functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    work = 2.0 * tokens * sum(n * k for n, k in shapes)
    for what, with_attention in [("products", False), ("products and attention", True)]:
        seconds = layers * median_seconds(lambda turn: layer(turn, with_attention), work)
        print(f"prompt      {tokens} tokens, Llama-2-7B's layers in bfloat16, {what}: {seconds * 1e3:.2f} ms, "
              f"{tokens / seconds:.0f} tokens/s", flush=True)


def main() -> int:
    products = {"bf16": bf16, "fp16": fp16, "int4pack": int4pack, "int_mm": int_mm, "scaled_mm": scaled_mm}
    shapes = [tuple(int(part) for part in word.split("x")) for word in sys.argv[1:] if SHAPE.fullmatch(word)]
    names = [word for word in sys.argv[1:] if not SHAPE.fullmatch(word)] or [*products, "sdpa", "prompt"]
    unknown = [name for name in names if name not in [*products, "sdpa", "prompt"]]
    if unknown or not torch.cuda.is_available():
        print(f"cuda_peers: {unknown[0]} is not known" if unknown else "cuda_peers: PyTorch finds no GPU",
              file=sys.stderr)
        return 2
    limit = read_bandwidth()
    print(f"{torch.cuda.get_device_name(0)}, PyTorch {torch.__version__}: reads {limit / 1e9:.0f} GB/s", flush=True)
    for name in names:
        if name == "sdpa":
            report_decode(limit)
        elif name == "prompt":
            report_prompt()
        else:
            built_in = FEW + MANY + [case for case in DENSE if name == "bf16" and case not in FEW + MANY]
            for m, n, k in shapes or built_in:
                report_product(name, products[name], m, n, k, limit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
