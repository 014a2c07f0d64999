#!/usr/bin/env python3
"""Measures what it costs that more weights share a scale: a matrix, a row, a group of a row.

    bench/measure_granularity.py RESULTS [--nibble build/release/nibble] [--model models/demo]

Rounds a model to nearest by symmetric integers of 8 and of 4 bits, with one scale for each matrix, row, and group of 128
and 32, and writes one line of JSON for each to RESULTS (bench/results/granularity.jsonl). The squared error is that of
the weights over the squared weights, the mean over all layers. Activations are float, so that nothing else is rounded.
"""
import argparse
import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHARES = {"tensor": "matrix", "row": "row", "g128": "128 inputs", "g32": "32 inputs"}
EVERY_LAYER = "100000"


def recipes():
    return {f"rtn-w{bits}{words}-sym": (f"int{bits}-sym-{words}", shares)
            for bits in (8, 4) for words, shares in SHARES.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--nibble", default=str(ROOT / "build/release/nibble"))
    parser.add_argument("--model", default="models/demo")
    arguments = parser.parse_args()
    known = recipes()
    command = ["compare", arguments.model, "--recipes", ",".join(known), "--activations", "float", "--text",
               f"{arguments.model}/texts/evaluation.txt", "--pp", "0", "--tg", "0"]
    output = subprocess.run([arguments.nibble, *command, "--layers", EVERY_LAYER, "--quiet", "--json"], check=True,
                            capture_output=True, text=True, cwd=ROOT).stdout
    lines = []
    for row in json.loads(output)["rows"]:
        if row["recipe"] in known:
            scheme, shares = known[row["recipe"]]
            errors = [layer["relative_error"] for layer in row["layers"]]
            lines.append({"model": arguments.model, "scheme": scheme, "shares": shares, "command": " ".join(["nibble", *command]),
                          "bits": row["bits_per_weight"], "squared_error": sum(errors) / len(errors),
                          "perplexity": row["perplexity"], "increase": 100 * row["increase"], "kl": row["kl_divergence"]})
    arguments.results.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
