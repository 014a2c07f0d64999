#!/usr/bin/env python3
"""What quantization brings a server: output tokens per second and time per token of types of weights and KV caches under
one budget of memory, beside what the memory's bandwidth and the arithmetic allow.

    bench/serving_sweep.py NIBBLE FOLDER --tokenizer MODEL [--models bf16+f16,int8-sym-row-a8+int8,int4-sym-row-a8+int4]
                           [--gb 24] [--spare-gb 1] [--clients 8,64,256] [--lengths 128:256,atom] [--rounds 2] [--seconds 300]
                           [--device cuda] [--sizes "--hidden 2048 --layers 16"] [--json FILE]
    bench/serving_sweep.py --plot FILE.svg --json FILE

A model is a scheme of random_model.py, in Llama-2-7B's shape or that of --sizes, and the type of keys and values. The KV
cache gets what the budget leaves beside the weights and --spare-gb; a model whose weights leave nothing is left out, and
said so. Lengths are IN:OUT tokens, or those of Atom's evaluation up to 2,048. Each client sends --rounds requests, of
Atom's three quarters as many. The limit of a point is that of `nibble bench` at the batch that the cache holds, for
prompts and decoding one after the other. Points that would begin after --seconds are left out.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import time

from under_load import load, run_json, write_random_model

MODELS = "bf16+f16,int8-sym-row-a8+int8,int4-sym-g128+f16,int4-sym-row-a8+int4"
PORT = 8195
ATOM = (24, 1000)  # tokens in and out, for the limit: about the means of src/load_test/workload.h


def size_of(folder):
    return sum(each.stat().st_size for each in folder.glob("*.safetensors"))


class Server:
    """`nibble serve` of a model with so many bytes of KV cache, until the end of the block."""

    def __init__(self, nibble, folder, device, kv_type, cache, clients):
        self.words = [nibble, "serve", str(folder), "--device", device, "--kv-type", kv_type, "--port", str(PORT), "--context",
                      "2048", "--memory", str(cache), "--max-batch", str(clients), "--max-queue", "4096", "-q"]

    def __enter__(self):
        self.process = subprocess.Popen(self.words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)


def limits(nibble, folder, device, kv_type, cache, clients, lengths, limit):
    """Tokens per second that the device allows, the engine's own speed at that batch, and the batch."""
    tokens_in, tokens_out = ATOM if lengths == "atom" else map(int, lengths.split(":"))
    depth = tokens_in + tokens_out // 2
    config = json.loads((folder / "config.json").read_text())
    width = config["num_key_value_heads"] * config["hidden_size"] // config["num_attention_heads"]
    each = {"f16": 2 * width, "int8": width + 4 * config["num_key_value_heads"],
            "int4": width // 2 + 4 * config["num_key_value_heads"]}[kv_type] * 2 * config["num_hidden_layers"]
    batch = max(1, min(clients, cache // (each * depth)))
    found, error = run_json([nibble, "bench", str(folder), "--device", device, "--kv-type", kv_type, "--batch", str(batch), "--depth",
                             str(depth), "--tg", "16", "--pp", "512", "--json", "-q"], limit)
    if found is None:
        print(f"nibble bench: {error.strip()[-300:]}", flush=True)
        return {"batch": batch}
    rows = {row["phase"]: row for row in found["rows"]}

    def both(key):  # prompts, then decoding
        return 1 / (1 / rows["decode"][key] + tokens_in / tokens_out / rows["prefill"][key])

    return {"batch": batch, "limit": both("limit_tokens_per_s"), "bench": both("tokens_per_s")}


def measure(args, model, left):
    """The points of a model."""
    scheme, _, kv_type = model.partition("+")
    folder = args.folder / scheme
    write_random_model(folder, args.tokenizer, scheme, *args.sizes.split())
    cache = int((args.gb - args.spare_gb) * 1e9) - size_of(folder)
    if cache < 10**7:
        print(f"{model}: its weights leave no room for a KV cache", flush=True)
        return []
    points = []
    for lengths in args.lengths.split(","):
        for clients in map(int, args.clients.split(",")):
            if left() < 10:
                print(f"{model} {lengths} {clients} clients: left out, no time", flush=True)
                continue
            point = {"model": model, "gb": args.gb, "lengths": lengths, "clients": clients, "cache_bytes": cache}
            point |= limits(args.nibble, folder, args.device, kv_type, cache, clients, lengths, left())
            with Server(args.nibble, folder, args.device, kv_type, cache, clients) as server:
                requests = int(args.rounds * clients * (0.75 if lengths == "atom" else 1))
                found = load(args.nibble, server.process, PORT, clients, lengths, requests, max(10, left()))
            if found:
                point |= {"tokens_per_s": found["output_throughput"], "ms_per_token": found["median_tpot_ms"],
                          "first_token_ms": found["mean_ttft_ms"]}
            points.append(point)
            print(json.dumps(point), flush=True)
    shutil.rmtree(folder)
    return points


def plot(points, file):
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
    kinds = sorted({point["lengths"] for point in points})
    _, axes = pyplot.subplots(1, len(kinds), figsize=(6 * len(kinds), 4.5), squeeze=False)
    for axis, lengths in zip(axes[0], kinds):
        for model in dict.fromkeys(point["model"] for point in points):
            shown = [p for p in points if p["model"] == model and p["lengths"] == lengths and "tokens_per_s" in p]
            axis.plot([p["ms_per_token"] for p in shown], [p["tokens_per_s"] for p in shown], marker="o", label=model)
        axis.set(title=f"{points[0]['gb']:g} GB, {lengths}", xlabel="ms per token (median)", ylabel="output tokens/s")
        axis.grid(True)
        axis.legend()
    pyplot.tight_layout()
    pyplot.savefig(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nibble", nargs="?")
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    parser.add_argument("--tokenizer")
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sizes", default="")
    parser.add_argument("--gb", type=float, default=24)
    parser.add_argument("--spare-gb", type=float, default=1)
    parser.add_argument("--clients", default="8,64,256")
    parser.add_argument("--lengths", default="128:256,atom")
    parser.add_argument("--rounds", type=float, default=2)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--plot")
    args = parser.parse_args()
    if args.plot:
        plot(json.loads(args.json.read_text()), args.plot)
        return
    if not (args.nibble and args.folder and args.tokenizer):
        parser.error("NIBBLE, FOLDER and --tokenizer are needed")
    begin, points = time.monotonic(), []
    for model in args.models.split(","):
        points += measure(args, model, lambda: args.seconds - (time.monotonic() - begin))
        if args.json:
            args.json.write_text(json.dumps(points, indent=1))


if __name__ == "__main__":
    main()
