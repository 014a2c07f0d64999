#!/usr/bin/env python3
"""The products of BERT's layers in INT4, INT8 and FP16 on a GPU: TOP/s, and the share of the GPU's limit.

    bench/encoder_gemms.py [--sizes base,large] [--tokens 32,64,...,16384] [--build build/release/bench] [--no-peers]
                           [--int8-tops 1979] [--json FILE]

The four products of a layer (q, k and v; the output of attention; both of the MLP) for each number of tokens, which is
batch times length. INT4 is 4-bit weights with activations of 4 or 8 bits, INT8 is 8 bits of both, each with a scale for
a row: the kernels that a layer takes (cuda_gemm_bench --layers). FP16 is cuda_dense_bench; results are float32. Peers
are PyTorch's products (cuda_peers.py): fp16 (cuBLAS) and int_mm (INT8 by cuBLASLt, results int32). The limit is that of
arithmetic (--int8-tops, half of it in 16 bits) or of reading the weights, whichever takes longer; the default is the
data sheet's figure for the GPU.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

SIZES = {"base": (768, 3072), "large": (1024, 4096)}
DEFAULT_TOKENS = ",".join(str(32 << i) for i in range(10))
LINE = re.compile(r"(\S.*?)\s+m\s+(\d+) n\s+(\d+) k\s+(\d+)\s+([\d.]+) us")
READS = re.compile(r"reads (\d+) GB/s")
INT8_TOPS = {"NVIDIA H100 80GB HBM3": 1979, "NVIDIA H200": 1979, "NVIDIA A100-SXM4-80GB": 624}  # dense, data sheets
# Column: the name in a program's lines, bits of a weight, and of 8 bits or 16 the arithmetic.
OURS = {"INT4": ("w4a8-row", 4, 8), "INT8": ("w8a8", 8, 8), "FP16": ("F16   cublaslt", 16, 16)}
PEERS = {"cuBLAS FP16": ("fp16", 16, 16), "cuBLASLt INT8": ("int_mm", 8, 8)}


def products(size):
    """Name: (rows of the weights, inputs)."""
    hidden, ffn = SIZES[size]
    return {"qkv": (3 * hidden, hidden), "attention output": (hidden, hidden), "MLP in": (ffn, hidden),
            "MLP out": (hidden, ffn)}


class Times:
    def __init__(self):
        self.microseconds = {}  # (name of a line, m, n, k)
        self.device = ""
        self.read_bandwidth = 0.0

    def run(self, command):
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if result.returncode != 0:
            print(f"encoder_gemms: {command[0]} ended with exit code {result.returncode}", file=sys.stderr)
        for line in result.stdout.splitlines():
            found = LINE.match(line)
            if found:
                name = re.sub(r"few \S+.*", "few", found[1])
                self.microseconds[(name, *(int(found[i]) for i in (2, 3, 4)))] = float(found[5])
            elif READS.search(line) and not self.device:
                self.device = re.split(r"[,:]", line)[0]
                self.read_bandwidth = 1e9 * float(READS.search(line)[1])


def limit_microseconds(m, n, k, weight_bits, arithmetic_bits, int8_tops, read_bandwidth):
    tops = int8_tops if arithmetic_bits == 8 else int8_tops / 2
    return 1e6 * max(2e-12 * m * n * k / tops, n * k * weight_bits / 8 / read_bandwidth)


def row_of(times, columns, m, n, k, int8_tops):
    row = {}
    for column, (name, weight_bits, arithmetic_bits) in columns.items():
        taken = times.microseconds.get((name, m, n, k))
        if taken is None:
            continue
        row[column] = {"us": taken, "tops": 2e-6 * m * n * k / taken}
        if int8_tops:
            row[column]["share_of_limit"] = limit_microseconds(
                m, n, k, weight_bits, arithmetic_bits, int8_tops, times.read_bandwidth) / taken
    return row


def cell(value):
    if value is None:
        return "-"
    share = f" {100 * value['share_of_limit']:5.1f} %" if "share_of_limit" in value else ""
    return f"{value['tops']:.1f}{share}"


def times_as_fast(row, ours, theirs):
    return f"{row[theirs]['us'] / row[ours]['us']:.2f}" if ours in row and theirs in row else "-"


def print_rows(header, rows):
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        print("  ".join(text.rjust(width) for text, width in zip(row, widths)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="base,large")
    parser.add_argument("--tokens", default=DEFAULT_TOKENS)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release/bench"))
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--int8-tops", type=float)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    sizes = args.sizes.split(",")
    if any(size not in SIZES for size in sizes):
        print(f"encoder_gemms: --sizes are of {', '.join(SIZES)}", file=sys.stderr)
        return 2
    tokens = [int(word) for word in args.tokens.split(",")]
    shapes = [f"{m}x{n}x{k}" for size in sizes for n, k in products(size).values() for m in tokens]
    times = Times()
    times.run([str(args.build / "cuda_gemm_bench"), "--layers", "w4a8-row", "w8a8", *shapes])
    times.run([str(args.build / "cuda_dense_bench"), "f16", *shapes])
    if not args.no_peers:
        peers = pathlib.Path(__file__).with_name("cuda_peers.py")
        times.run([sys.executable, str(peers), "fp16", "int_mm", *shapes])
    columns = OURS if args.no_peers else {**OURS, **PEERS}
    int8_tops = args.int8_tops or INT8_TOPS.get(times.device)
    print(f"{times.device}: reads {times.read_bandwidth / 1e9:.0f} GB/s, " +
          (f"{int8_tops:.0f} INT8 TOP/s" if int8_tops else "INT8 TOP/s not known (--int8-tops)"))
    rows = []
    for size in sizes:
        for product, (n, k) in products(size).items():
            print(f"\nBERT-{size}, {product}, {k} x {n}: TOP/s, share of the limit")
            table = []
            for m in tokens:
                row = row_of(times, columns, m, n, k, int8_tops)
                table.append([str(m), *(cell(row.get(column)) for column in columns),
                              times_as_fast(row, "INT4", "INT8"), times_as_fast(row, "INT8", "FP16")])
                rows.append({"size": size, "product": product, "tokens": m, "n": n, "k": k, **row})
            print_rows(["tokens", *columns, "INT4 over INT8", "INT8 over FP16"], table)
    if args.json:
        args.json.write_text(json.dumps({"device": times.device, "read_bytes_per_s": times.read_bandwidth,
                                         "int8_tops": int8_tops, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
