#!/usr/bin/env python3
"""Quantizes models by recipes and measures each result on several texts.

    bench/measure_accuracy.py RESULTS --model NAME=FOLDER ... --text NAME=FILE ... --calib NAME=FILE ... \\
        [--recipes A,B] [--jobs N] [--threads N] [--tasks FOLDER]

Adds one line of JSON for each model, recipe and calibration text to RESULTS (bench/results/accuracy.jsonl) and leaves
out those that are there, so that it can be interrupted and repeated. Each line comes from the packed result of
`nibble quantize`, evaluated by `nibble eval`: on every text with `--activations float`, which leaves a recipe's own
activation format as it is, and on the first text with 8-bit activations too, if the recipe has none of its own. A
recipe that a model refuses is written down with the refusal. Without `--recipes` all presets are taken that
`nibble quantize --help` lists. bench/result_tables.py makes tables of the lines.
"""
import argparse
import concurrent.futures
import json
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
TASK_ITEMS = {"arc_easy,piqa,lambada_openai": 500, "blimp": 50}  # the first of each file


def presets(nibble):
    """The names that the description of --recipe lists, up to the next option."""
    words = subprocess.run([nibble, "quantize", "--help"], check=True, capture_output=True, text=True).stdout
    return re.search(r"Preset or \.json file:(.*?)\n\s*-", words, re.DOTALL)[1].split()


def named(pairs):
    return dict(pair.split("=", 1) for pair in pairs)


def activation_format(folder):
    """Whether some layer of a quantized model brings its own activation format."""
    layers = json.loads((folder / "config.json").read_text())["quantization_config"]["layers"]
    return any(re.search(r"-a(fp)?[0-9]", scheme) for scheme in layers.values())


def blocks(folder):
    config = json.loads((Path(folder) / "config.json").read_text())
    return config.get("num_hidden_layers", config.get("n_layer"))


class Bench:
    def __init__(self, arguments):
        self.nibble = arguments.nibble
        self.texts = named(arguments.text)
        self.samples = arguments.samples
        self.threads = str(arguments.threads)
        self.tasks = arguments.tasks

    def evaluate(self, folder, text, *more):
        command = [self.nibble, "eval", str(folder), "--text", self.texts[text], "--threads", self.threads,
                   *EVALUATION, *more]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def scores(self, folder):
        """The share of items that are right, by task, where tasks are wanted."""
        shares = {}
        for names, limit in TASK_ITEMS.items() if self.tasks else []:
            command = [self.nibble, "tasks", str(folder), "--task", names, "--data", self.tasks, "--limit", str(limit),
                       "--threads", self.threads, "--quiet", "--json"]
            result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            shares.update({task["task"]: task["acc"] for task in result["tasks"]})
        return {"tasks": shares} if shares else {}

    def quantize(self, model, output, recipe, calibration):
        command = [self.nibble, "quantize", model, "-o", str(output), "--recipe", recipe, "--samples",
                   str(self.samples), "--seq-len", "1024", "--threads", self.threads, "--quiet"]
        if calibration:
            command += ["--calib", calibration]
        return subprocess.run(command, capture_output=True, text=True)

    def original(self, model):
        return {"bits": 16, "perplexity": {text: self.evaluate(model, text)["perplexity"] for text in self.texts},
                **self.scores(model)}

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
            if blocks(output) < blocks(model):
                row["blocks"] = [blocks(output), blocks(model)]
            if self.tasks:
                return {**row, **self.scores(output)}
            first = next(iter(self.texts))
            more = [] if activation_format(output) else ["--activations", "int8"]
            result = self.evaluate(output, first, "--reference", model, *more)
            row["as_run"] = {"perplexity": result["perplexity"], "kl": result["kl_divergence"],
                             "kl_error": result["kl_divergence_window_standard_error"],
                             "top1": result["top1_agreement"]}
            return row


def measure(arguments):
    models, calibrations = named(arguments.model), named(arguments.calib)
    done = {(row["model"], row["recipe"], row["calibration"]) for row in measured(arguments.results)}
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


def measured(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--model", action="append", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--text", action="append", required=True, metavar="NAME=FILE")
    parser.add_argument("--calib", action="append", required=True, metavar="NAME=FILE",
                        help="NAME= without a file: the model writes its own text")
    parser.add_argument("--recipes", help="presets or .json files, separated by commas")
    parser.add_argument("--samples", type=int, default=128, help="calibration windows of 1,024 tokens")
    parser.add_argument("--jobs", type=int, default=1, help="recipes at a time")
    parser.add_argument("--threads", type=int, default=2, help="of each job")
    parser.add_argument("--tasks", metavar="FOLDER", help="score the tasks in FOLDER (docs/cli.md)")
    parser.add_argument("--nibble", default=str(ROOT / "build/release/nibble"))
    return measure(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
