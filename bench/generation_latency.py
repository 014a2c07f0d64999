#!/usr/bin/env python3
"""What a scheme brings one client: the time from a short prompt to the last token, and the memory, of random models in the shapes
of Llama-2-7B and -13B, in one table.

    bench/generation_latency.py NIBBLE FOLDER --tokenizer MODEL [--shapes 7b,13b] [--models bf16,int8-sym-g128,int4-asym-g16-bsr@0.5]
                                [--prompt 15] [--outputs 128,256,512,1024] [--device cuda] [--repeats 2] [--seconds 540] --json FILE

A model is a scheme of random_model.py, and behind an @ the share of groups that it keeps. Latency is that of `nibble bench` for the
prompt and for so many tokens behind it. Each model is written, measured and removed. Models that would begin after --seconds are
left out, and said so. --json keeps a line for each model and leaves out those that are there, so that it can be interrupted and
repeated.
"""
import argparse
import json
import pathlib
import shutil
import time

from measurements import markdown, read
from serving_sweep import size_of
from under_load import run_json, write_random_model

SHAPES = {
    "7b": ["--hidden", "4096", "--ffn", "11008", "--heads", "32", "--kv-heads", "32", "--layers", "32"],
    "13b": ["--hidden", "5120", "--ffn", "13824", "--heads", "40", "--kv-heads", "40", "--layers", "40"],
    "tiny": ["--hidden", "256", "--ffn", "512", "--heads", "4", "--kv-heads", "4", "--layers", "2"],  # to try this program
}
MODELS = ("bf16,int8-sym-g128,int4-sym-g128,int3-sym-g128,int2-sym-g128,int4-sym-g128-2of4,int8-asym-g16-bsr@0.7,int8-asym-g16-bsr@0.5,"
          "int4-asym-g16-bsr@0.8,int4-asym-g16-bsr@0.7,int4-asym-g16-bsr@0.6,int4-asym-g16-bsr@0.5")


def latency_ms(args, folder, outputs, limit):
    """Of the prompt and `outputs` tokens behind it; None, and why, where the bench fails."""
    found, error = run_json([args.nibble, "bench", folder, "--device", args.device, "--pp", args.prompt, "--depth", args.prompt,
                             "--tg", str(outputs), "--batch", "1", "--repeats", args.repeats, "--json", "-q"], limit)
    if found is None:
        print(f"{folder.name}: {error.strip()[-300:]}", flush=True)
        return None
    rate = {row["phase"]: row["tokens_per_s"] for row in found["rows"]}
    return 1000 * (int(args.prompt) / rate["prefill"] + outputs / rate["decode"])


def measure(args, shape, model, left):
    scheme, _, kept = model.partition("@")
    folder = args.folder / f"{shape}-{model}"
    write_random_model(folder, args.tokenizer, scheme, *SHAPES[shape], *(["--kept", kept] if kept else []))
    row = {"shape": shape, "model": model, "gigabytes": round(size_of(folder) / 1e9, 2), "prompt": int(args.prompt), "milliseconds": {}}
    for outputs in args.outputs.split(","):
        found = latency_ms(args, folder, int(outputs), left())
        if found is not None:
            row["milliseconds"][outputs] = round(found, 1)
    shutil.rmtree(folder)
    return row


def table(rows):
    """Milliseconds of each length, and how many times as fast as the first model of the shape."""
    body = []
    for row in rows:
        first = next(other for other in rows if other["shape"] == row["shape"])["milliseconds"]
        body.append([row["shape"], f"`{row['model']}`", f"{row['gigabytes']:.2f}",
                     *(f"{value:.0f} ({first[outputs] / value:.2f})" if outputs in first else f"{value:.0f}"
                       for outputs, value in row["milliseconds"].items())])
    return markdown(["shape", "model", "GB", *(f"{outputs} tokens" for outputs in rows[0]["milliseconds"])], body)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nibble")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--shapes", default="7b,13b")
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--prompt", default="15")
    parser.add_argument("--outputs", default="128,256,512,1024")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repeats", default="2", help="of each length; the median counts")
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--json", type=pathlib.Path, required=True)
    args = parser.parse_args()
    begin = time.monotonic()
    known = {(row["shape"], row["model"]) for row in read(args.json)}
    for shape in args.shapes.split(","):
        for model in args.models.split(","):
            if (shape, model) in known:
                continue
            left = args.seconds - (time.monotonic() - begin)
            if left < 15:
                print(f"{shape} {model}: left out, no time", flush=True)
                continue
            row = measure(args, shape, model, lambda: args.seconds - (time.monotonic() - begin))
            with args.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    if rows := read(args.json):
        print(table(rows))


if __name__ == "__main__":
    main()
