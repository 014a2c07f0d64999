#!/usr/bin/env python3
"""Measures models on one GPU and on two: tokens per second of decoding and of prompts, shares of the memories' bandwidth,
and memory of each GPU.

    bench/two_gpus.py NIBBLE FOLDER --tokenizer MODEL [--models 7b:int4-sym-g128,13b:int4-sym-row-a8+int4,...]
                      [--batch 1,32,128] [--pp 2048] [--tg 64] [--clients 256] [--seconds 200] [--json FILE]

A model is a shape (7b, 13b, 30b) and a scheme of random_model.py; "+TYPE" behind it is the type of keys and values. Models
are random, written to FOLDER and removed behind their rows. Those that would begin after --seconds are left out, and said
so. Both counts of GPUs run in turn, and NIBBLE_PEER_SUMS=0 (all sums by NCCL) beside them at batch 1. With --clients,
`nibble serve` also answers so many at once (128 tokens in, 256 out). Needs NCCL where NIBBLE finds it (docs/ranks.md).
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import time

from under_load import load, write_random_model

SHAPES = {"7b": ("4096", "11008", "32", "32"), "13b": ("5120", "13824", "40", "40"), "30b": ("6656", "17920", "52", "60")}
MODELS = ",".join(f"{shape}:{scheme}" for scheme in ("int4-sym-g128", "int4-sym-row-a8+int4", "int8-sym-row-a8", "bf16")
                  for shape in SHAPES)
PORT = 8190


def start(words, gpus, extra=None, output=subprocess.PIPE):
    """The ranks of a command, one for each GPU."""
    job = f"two-gpus-{os.getpid()}-{time.monotonic_ns()}"
    ranks = []
    for rank in range(gpus):
        environment = dict(os.environ, **(extra or {}))
        if gpus > 1:
            environment |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(gpus), "LOCAL_WORLD_SIZE": str(gpus),
                            "SLURM_JOB_ID": job}
        ranks.append(subprocess.Popen(words, env=environment, stdout=output, stderr=output, text=True))
    return ranks


def end(ranks):
    for rank in ranks:
        try:
            rank.wait(10)
        except subprocess.TimeoutExpired:
            rank.kill()


def memory():
    out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                         capture_output=True, text=True, check=False).stdout
    return [int(line) for line in out.split()]


def bench(words, gpus, limit, extra=None):
    """The JSON of `nibble bench` on so many GPUs; None where it failed."""
    ranks = start(words, gpus, extra)
    used, until = [], time.monotonic() + limit
    while ranks[0].poll() is None and time.monotonic() < until:
        used.append(memory())
        time.sleep(0.5)
    end(ranks)
    out, error = ranks[0].communicate()
    if ranks[0].returncode != 0:
        print(f"{gpus} GPUs: exit {ranks[0].returncode}: {error.strip()[-300:]}", flush=True)
        return None
    result = json.loads(out)
    result["gpu_memory_mib"] = [max(each) for each in zip(*used)]
    return result


def serve(nibble, words, gpus, clients, limit):
    """The JSON of a load on a server on so many GPUs; None where it failed."""
    port = PORT + gpus
    ranks = start([nibble, "serve", *words, "--port", str(port), "--max-batch", str(clients), "-q"], gpus, output=subprocess.DEVNULL)
    result = load(nibble, ranks[0], port, clients, "128:256", 2 * clients, limit)
    for rank in ranks:
        rank.terminate()
    end(ranks)
    return result


def rows_of(result):
    return {(row["phase"], row.get("batch", 1)): row for row in result["rows"]} if result else {}


def measure(args, model, words, left):
    """Prints the rows of a model; returns them."""
    usual = [args.nibble, "bench", *words, "--json", "-q", "--repeats", "3", "--tg", args.tg]
    one, two = (bench(usual + ["--batch", args.batch, "--pp", args.pp], gpus, max(20, left())) for gpus in (1, 2))
    by_nccl = bench(usual + ["--batch", "1", "--pp", "0"], 2, max(15, left()), {"NIBBLE_PEER_SUMS": "0"})
    rows = []
    for key in rows_of(one):
        found = [rows_of(result).get(key) for result in (one, two, by_nccl)]
        speed = [row["tokens_per_s"] if row else None for row in found]
        share = [row["share_of_limit"] if row else None for row in found[:2]]
        rows.append({"model": model, "phase": key[0], "batch": key[1], "one": speed[0], "two": speed[1], "two_by_nccl": speed[2],
                     "shares_of_limit": share, "limited_by": found[0]["limited_by"]})
        if speed[1]:
            beside = f", by NCCL {speed[2]:.1f}" if speed[2] else ""
            print(f"{model} {key[0]} batch {key[1]}: one {speed[0]:.1f} ({share[0]:.0%} of the {found[0]['limited_by']}), two "
                  f"{speed[1]:.1f} ({share[1]:.0%}), {speed[1] / speed[0]:.2f} times{beside}", flush=True)
    print(f"{model} MiB of each GPU:", [(result or {}).get("gpu_memory_mib") for result in (one, two)], flush=True)
    return rows


def measure_serving(args, model, words, left):
    found = [serve(args.nibble, words, gpus, args.clients, max(20, left())) for gpus in (1, 2)]
    speed = [result["output_throughput"] if result else None for result in found]
    print(f"{model} {args.clients} clients: one {speed[0]}, two {speed[1]} tokens/s", flush=True)
    return [{"model": model, "phase": "serve", "batch": args.clients, "one": speed[0], "two": speed[1], "loads": found}]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nibble")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--batch", default="1,32,128")
    parser.add_argument("--pp", default="2048")
    parser.add_argument("--tg", default="64")
    parser.add_argument("--clients", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    begin, rows = time.monotonic(), []

    def left():
        return args.seconds - (time.monotonic() - begin)

    for model in args.models.split(","):
        if left() < 20:
            print(f"{model}: left out, no time", flush=True)
            continue
        shape, _, scheme = model.partition(":")
        scheme, _, kv_type = scheme.partition("+")
        hidden, ffn, heads, layers = SHAPES[shape]
        folder = args.folder / f"{shape}-{scheme}"
        write_random_model(folder, args.tokenizer, scheme, "--hidden", hidden, "--ffn", ffn, "--heads", heads, "--kv-heads", heads,
                           "--layers", layers)
        words = [str(folder), "--device", "cuda", "--kv-type", kv_type or "f16"]
        rows += measure(args, model, words, left)
        if args.clients and left() > 20:
            rows += measure_serving(args, model, words, left)
        print(f"{time.monotonic() - begin:.0f} s", flush=True)
        shutil.rmtree(folder)
        if args.json:
            args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
