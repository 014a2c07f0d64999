#!/usr/bin/env python3
"""Quantizes models by recipes, measures each result on several texts, and writes the tables of docs/accuracy.md.

    bench/accuracy_table.py measure RESULTS --model NAME=FOLDER ... --text NAME=FILE ... [--recipes A,B] \\
        [--calib NAME=FILE ...] [--jobs N] [--threads N]
    bench/accuracy_table.py write RESULTS docs/accuracy.md

`measure` adds one line of JSON for each model, recipe and calibration text to RESULTS and leaves out those that are
there, so that it can be interrupted and repeated. Each line comes from the packed result of `nibble quantize`, evaluated
by `nibble eval`: on every text with `--activations float`, which leaves a recipe's own activation format as it is, and
on the first text with 8-bit activations too, if the recipe has none of its own. A recipe that a model refuses is
written down with the refusal. Without `--recipes` all presets are taken that `nibble quantize --help` lists.

`write` replaces what stands between `<!-- NAME -->` and `<!-- end of NAME -->` for each table that it knows.
"""
import argparse
import concurrent.futures
import json
import math
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EVALUATION = ["--seq-len", "1024", "--max-tokens", "40960", "--quiet", "--json"]
ORIGINAL = "original"
MIXED = "mixed"  # the calibration of the main table


# ---------------------------------------------------------------- measure

def presets(nibble):
    words = subprocess.run([nibble, "quantize", "--help"], check=True, capture_output=True, text=True).stdout
    return re.search(r"--recipe TEXT REQUIRED +Preset or \.json file: (.*)", words)[1].split()


def named(pairs):
    return dict(pair.split("=", 1) for pair in pairs)


def activation_format(folder):
    """Whether some layer of a quantized model brings its own activation format."""
    layers = json.loads((folder / "config.json").read_text())["quantization_config"]["layers"]
    return any(re.search(r"-a[0-9]", scheme) for scheme in layers.values())


class Bench:
    def __init__(self, arguments):
        self.nibble = arguments.nibble
        self.texts = named(arguments.text)
        self.samples = arguments.samples
        self.threads = str(arguments.threads)

    def evaluate(self, folder, text, *more):
        command = [self.nibble, "eval", str(folder), "--text", self.texts[text], "--threads", self.threads,
                   *EVALUATION, *more]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def quantize(self, model, output, recipe, calibration):
        command = [self.nibble, "quantize", model, "-o", str(output), "--recipe", recipe, "--samples",
                   str(self.samples), "--seq-len", "1024", "--threads", self.threads, "--quiet"]
        if calibration:
            command += ["--calib", calibration]
        return subprocess.run(command, capture_output=True, text=True)

    def original(self, model):
        return {"bits": 16, "perplexity": {text: self.evaluate(model, text)["perplexity"] for text in self.texts}}

    def packed(self, model, recipe, calibration):
        with tempfile.TemporaryDirectory() as temporary:
            output = Path(temporary) / "packed"
            start = time.monotonic()
            run = self.quantize(model, output, recipe, calibration)
            seconds = round(time.monotonic() - start, 1)
            if run.returncode != 0:
                return {"refused": run.stderr.strip().splitlines()[-1] if run.stderr else f"exit {run.returncode}"}
            row = {"quantize_seconds": seconds, "perplexity": {}}
            for text in self.texts:
                result = self.evaluate(output, text, "--activations", "float")
                row["perplexity"][text] = result["perplexity"]
            row["bits"] = result["bits_per_weight"]
            first = next(iter(self.texts))
            more = [] if activation_format(output) else ["--activations", "int8"]
            result = self.evaluate(output, first, "--reference", model, *more)
            row["as_run"] = {"perplexity": result["perplexity"], "kl": result["kl_divergence"],
                             "kl_error": result["kl_divergence_window_standard_error"],
                             "top1": result["top1_agreement"]}
            return row


def measure(arguments):
    models, calibrations = named(arguments.model), named(arguments.calib)
    done = {(row["model"], row["recipe"], row["calibration"]) for row in read(arguments.results)}
    bench = Bench(arguments)
    recipes = arguments.recipes.split(",") if arguments.recipes else [ORIGINAL, *presets(arguments.nibble)]
    jobs = [(model, recipe, calibration) for recipe in recipes for model in models for calibration in calibrations
            if (model, Path(recipe).stem, calibration) not in done]
    lock = threading.Lock()

    def one(job):
        model, recipe, calibration = job
        row = (bench.original(models[model]) if recipe == ORIGINAL else
               bench.packed(models[model], recipe, calibrations[calibration]))
        name = Path(recipe).stem if recipe.endswith(".json") else recipe
        line = {"model": model, "recipe": name, "calibration": calibration, "samples": bench.samples, **row}
        with lock, open(arguments.results, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{model} {name} {calibration}: {row.get('refused') or 'done'}", file=sys.stderr, flush=True)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        failures = [error for error in pool.map(lambda job: attempt(one, job), jobs) if error]
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def attempt(function, job):
    try:
        function(job)
        return None
    except (subprocess.CalledProcessError, KeyError, ValueError) as error:
        return f"{' '.join(job)}: {error} {getattr(error, 'stderr', '') or ''}".strip()


# ---------------------------------------------------------------- write

def read(path):
    if not Path(path).exists():
        return []
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines() if line]


def increase(perplexity, original):
    percent = 100 * (perplexity / original - 1)
    return "lost" if not math.isfinite(percent) or percent >= 1000 else f"{percent:+.2f}"


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def originals(rows):
    return {row["model"]: row["perplexity"] for row in rows if row["recipe"] == ORIGINAL}


def recipe_rows(rows, model):
    """One Markdown row for each recipe that was measured on a model with the mixed calibration text."""
    base = originals(rows)[model]
    yield [f"`{ORIGINAL}`", "16", *(f"{value:.4f}" for value in base.values()), "", "", ""]
    first = next(iter(base))
    for row in sorted(rows, key=lambda row: (-row.get("bits", 0), row.get("as_run", {}).get("kl", 0))):
        if row["model"] != model or row["calibration"] != MIXED or row["recipe"] == ORIGINAL:
            continue
        if "refused" in row:
            yield [f"`{row['recipe']}`", "refused", *[""] * (len(base) + 3)]
            continue
        as_run = row["as_run"]
        yield [f"`{row['recipe']}`", f"{row['bits']:.3f}",
               *(increase(row["perplexity"][text], base[text]) for text in base),
               increase(as_run["perplexity"], base[first]), f"{as_run['kl']:.4f} ± {as_run['kl_error']:.4f}",
               f"{100 * as_run['top1']:.1f}"]


def accuracy_tables(rows):
    for model, base in originals(rows).items():
        first = next(iter(base))
        header = ["recipe", "bits/weight", *base, f"{first}, as run", "KL", "top-1 %"]
        yield f"accuracy-{model}", table(header, recipe_rows(rows, model))


def mismatch_table(rows):
    """Recipes that were calibrated on other texts too: a row for each calibration, a column for each test text."""
    twice = {(row["model"], row["recipe"]) for row in rows if row["calibration"] != MIXED}
    result = []
    for row in sorted(rows, key=lambda row: (row["model"], row["recipe"], row["calibration"])):
        if (row["model"], row["recipe"]) in twice and "perplexity" in row and row["recipe"] != ORIGINAL:
            base = originals(rows)[row["model"]]
            result.append([row["model"], f"`{row['recipe']}`", row["calibration"],
                           *(increase(row["perplexity"][text], base[text]) for text in base)])
    if result:
        texts = next(iter(originals(rows).values()))
        yield "accuracy-mismatch", table(["model", "recipe", "calibrated on", *texts], result)


def write(arguments):
    rows = read(arguments.results)
    text = arguments.document.read_text(encoding="utf-8")
    for name, content in [*accuracy_tables(rows), *mismatch_table(rows)]:
        pattern = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end of {re.escape(name)} -->)", re.DOTALL)
        if not pattern.search(text):
            print(f"{arguments.document}: no place for {name}", file=sys.stderr)
            continue
        text = pattern.sub(lambda match, content=content: match[1] + content + "\n" + match[2], text)
    arguments.document.write_text(text, encoding="utf-8")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("measure")
    command.set_defaults(run=measure)
    command.add_argument("results", type=Path)
    command.add_argument("--model", action="append", required=True, metavar="NAME=FOLDER")
    command.add_argument("--text", action="append", required=True, metavar="NAME=FILE")
    command.add_argument("--calib", action="append", required=True, metavar="NAME=FILE",
                         help="NAME= without a file: the model writes its own text")
    command.add_argument("--recipes", help="presets or .json files, separated by commas")
    command.add_argument("--samples", type=int, default=128, help="calibration windows of 1,024 tokens")
    command.add_argument("--jobs", type=int, default=1, help="recipes at a time")
    command.add_argument("--threads", type=int, default=2, help="of each job")
    command.add_argument("--nibble", default=str(ROOT / "build/release/nibble"))
    command = commands.add_parser("write")
    command.set_defaults(run=write)
    command.add_argument("results", type=Path)
    command.add_argument("document", type=Path)
    arguments = parser.parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
