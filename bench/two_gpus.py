#!/usr/bin/env python3
"""Measures models on one GPU and on two: tokens per second of decoding and of prompts, and memory of each GPU.

    bench/two_gpus.py NIBBLE FOLDER --tokenizer MODEL [--shapes 7b,13b,30b] [--schemes int4-sym-g128,int8-sym-row-a8,bf16]
                      [--batch 1,32,128] [--pp 2048] [--tg 64] [--seconds 200] [--json FILE]

Models are random (random_model.py), written to FOLDER and removed behind their rows. Rows that would begin after
--seconds are left out, and said so. Both counts of GPUs run in turn, and NIBBLE_PEER_SUMS=0 (all sums by NCCL)
beside them at batch 1. Needs NCCL where NIBBLE finds it (docs/ranks.md).
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

SHAPES = {"7b": ("4096", "11008", "32", "32"), "13b": ("5120", "13824", "40", "40"), "30b": ("6656", "17920", "52", "60")}


def start(words, rank, size, job, extra):
    environment = dict(os.environ, **extra)
    if size > 1:
        environment |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size),
                        "SLURM_JOB_ID": job}
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def memory():
    out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                         capture_output=True, text=True, check=False).stdout
    return [int(line) for line in out.split()]


def bench(words, gpus, limit, extra=None):
    """The JSON of `nibble bench` on so many GPUs; None where it failed."""
    job = f"two-gpus-{os.getpid()}-{time.monotonic_ns()}"
    ranks = [start(words, rank, gpus, job, extra or {}) for rank in range(gpus)]
    used, until = [], time.monotonic() + limit
    while ranks[0].poll() is None and time.monotonic() < until:
        used.append(memory())
        time.sleep(0.5)
    for rank in ranks:
        try:
            rank.wait(10)
        except subprocess.TimeoutExpired:
            rank.kill()
    out, error = ranks[0].communicate()
    if ranks[0].returncode != 0:
        print(f"{gpus} GPUs: exit {ranks[0].returncode}: {error.strip()[-300:]}", flush=True)
        return None
    result = json.loads(out)
    result["gpu_memory_mib"] = [max(each) for each in zip(*used)]
    return result


def rows_of(result):
    return {(row["phase"], row.get("batch", 1)): row for row in result["rows"]} if result else {}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nibble")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--shapes", default="7b,13b,30b")
    parser.add_argument("--schemes", default="int4-sym-g128,int8-sym-row-a8,bf16")
    parser.add_argument("--batch", default="1,32,128")
    parser.add_argument("--pp", default="2048")
    parser.add_argument("--tg", default="64")
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    begin, all_rows = time.monotonic(), []

    def left():
        return args.seconds - (time.monotonic() - begin)

    random_model = pathlib.Path(__file__).with_name("random_model.py")
    for scheme in args.schemes.split(","):
        for shape in args.shapes.split(","):
            if left() < 20:
                print(f"{shape} {scheme}: left out, no time", flush=True)
                continue
            hidden, ffn, heads, layers = SHAPES[shape]
            model = args.folder / f"{shape}-{scheme}"
            shutil.rmtree(model, ignore_errors=True)
            output = "bf16" if scheme == "bf16" else "int8-sym-row"
            subprocess.run([sys.executable, random_model, model, "--tokenizer", args.tokenizer, "--scheme", scheme,
                            "--output", output, "--hidden", hidden, "--ffn", ffn, "--heads", heads, "--kv-heads", heads,
                            "--layers", layers], check=True)
            words = [args.nibble, "bench", str(model), "--device", "cuda", "--json", "-q", "--repeats", "3"]
            usual = words + ["--batch", args.batch, "--pp", args.pp, "--tg", args.tg]
            results = {gpus: bench(usual, gpus, max(20, left())) for gpus in (1, 2)}
            nccl = bench(words + ["--batch", "1", "--pp", "0", "--tg", args.tg], 2, max(15, left()), {"NIBBLE_PEER_SUMS": "0"})
            one, two, by_nccl = rows_of(results[1]), rows_of(results[2]), rows_of(nccl)
            for key in one:
                speed = [rows[key]["tokens_per_s"] if key in rows else None for rows in (one, two, by_nccl)]
                all_rows.append({"shape": shape, "scheme": scheme, "phase": key[0], "batch": key[1], "one": speed[0],
                                 "two": speed[1], "two_by_nccl": speed[2]})
                ratio = f"{speed[1] / speed[0]:.2f}" if speed[1] else "-"
                print(f"{shape} {scheme} {key[0]} batch {key[1]}: one {speed[0]:.1f}, two {speed[1] or 0:.1f} ({ratio}), "
                      f"by NCCL {speed[2] or 0:.1f}", flush=True)
            print(f"{shape} {scheme} MiB:", [(r or {}).get("gpu_memory_mib") for r in results.values()],
                  f"at {time.monotonic() - begin:.0f} s", flush=True)
            shutil.rmtree(model)
            if args.json:
                args.json.write_text(json.dumps({"rows": all_rows, "results": results}, indent=1))


if __name__ == "__main__":
    main()
