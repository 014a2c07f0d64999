#!/usr/bin/env python3
"""Quantizes models by recipes, looks into each with `nibble analyze`, and prints the tables of docs/analysis.md.

    bench/measure_analysis.py FOLDER --model NAME=FOLDER,TEXT[,OPTIONS] ... [--task NAME=TASK,DATA ...] [--recipes A,B]
        [--nibble build/release/nibble]

FOLDER keeps what each run has written (MODEL.RECIPE.json; MODEL.RECIPE.task.json of models with a task); what is there is not measured
again. TEXT is what the model reads: a text for a decoder, lines for encoders, pairs for encoder-decoders. OPTIONS are words of
`nibble analyze` behind it, divided by spaces.
"""
import argparse
import json
import math
import subprocess
import tempfile
from pathlib import Path

RECIPES = ("w8a8,rtn-w4row,rtn-w4g128,rtn-w4row-a8,rtn-w8row-a4,rtn-w4row-a4,rtn-w4row-sym-a4,rtn-w4row-a4-asym,"
           "rtn-w4row-a4g128,rtn-w4g128-a4,rtn-w4g128-a4g128")
FLOAT = "float"


class Bench:
    def __init__(self, arguments):
        self.nibble, self.folder = arguments.nibble, Path(arguments.folder)
        self.models = {}
        for entry in arguments.model:
            name, rest = entry.split("=", 1)
            folder, text, *options = rest.split(",", 2)
            self.models[name] = (folder, text, options[0].split() if options else [])
        self.tasks = dict((name, rest.split(",", 1)) for name, rest in (entry.split("=", 1) for entry in arguments.task))
        self.recipes = arguments.recipes.split(",")

    def run(self, output, *words):
        if not output.exists():
            result = subprocess.run([self.nibble, *map(str, words), "-q", "--json"], check=True, capture_output=True, text=True)
            output.write_text(result.stdout)

    def measure(self):
        for recipe in self.recipes:
            for name, (model, text, options) in self.models.items():
                analysis, task = (self.folder / f"{name}.{recipe}{end}.json" for end in ("", ".task"))
                if analysis.exists() and (task.exists() or name not in self.tasks):
                    continue
                with tempfile.TemporaryDirectory() as place:
                    small = Path(place) / "small"
                    subprocess.run([self.nibble, "quantize", model, "-q", "-o", small, "--recipe", recipe], check=True,
                                   stdout=subprocess.DEVNULL)
                    self.run(analysis, "analyze", model, small, "--text", text, *options)
                    self.run_task(name, small, task)
        for name in self.tasks:
            self.run_task(name, self.models[name][0], self.folder / f"{name}.{FLOAT}.task.json")

    def run_task(self, name, model, output):
        if name in self.tasks:
            task, data = self.tasks[name]
            self.run(output, "tasks", model, "--task", task, "--data", data, "--activations", "float")

    def analysis(self, name, recipe):
        return json.loads((self.folder / f"{name}.{recipe}.json").read_text())

    def accuracy(self, name, recipe):
        return json.loads((self.folder / f"{name}.{recipe}.task.json").read_text())


def table(columns, rows):
    print("| " + " | ".join(columns) + " |")
    print("| --- |" + " ---: |" * (len(columns) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def estimate(json_object, name, digits):
    error = json_object[name + "_standard_error"]
    return f"{json_object[name]:+.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}")


def span(row):
    return str(row["first"]) if row["first"] >= row["last"] else f"{row['first']}-{row['last']}"


def last_noise(stack):
    return stack["signal_to_noise"][-1]["decibels"]


def decibels(value):
    return "exact" if value is None else f"{value:.1f}"


def increase(loss):
    ratio = math.exp(loss["increase"])
    return f"{100 * (ratio - 1):+.2f} ± {100 * ratio * loss['increase_standard_error']:.2f}"


def cost_table(bench):
    """Increase of perplexity in %, or the accuracy of a task; behind a slash the decibels behind the last block."""
    rows = []
    for recipe in bench.recipes:
        row = [f"`{recipe}`"]
        for name in bench.models:
            result = bench.analysis(name, recipe)
            damage = [increase(result["loss"])] if "loss" in result else []
            if name in bench.tasks:
                damage.append(task_text(bench.accuracy(name, recipe)))
            row.append(" / ".join(damage + [decibels(last_noise(result["stacks"][-1]))]))
        rows.append(row)
    table(["recipe", *bench.models], rows)
    for name in bench.tasks:
        print(f"{name} in float: {task_text(bench.accuracy(name, FLOAT))}\n")


def task_text(result):
    row = result["tasks"][0]
    return f"{100 * row['acc']:.1f} ± {100 * row['acc_stderr']:.1f} %"


def position_table(bench, recipe):
    """Increase of log-perplexity by position."""
    losses = {name: bench.analysis(name, recipe).get("loss") for name in bench.models}
    losses = {name: loss for name, loss in losses.items() if loss}
    longest = max(losses.values(), key=lambda loss: len(loss["positions"]))
    rows = []
    for i, position in enumerate(longest["positions"]):
        rows.append([span(position)] + [estimate(loss["positions"][i], "increase", 3) if i < len(loss["positions"]) else ""
                                        for loss in losses.values()])
    rows.append(["all"] + [estimate(loss, "increase", 3) for loss in losses.values()])
    rows.append(["for each doubling"] + [estimate(loss, "increase_per_doubling", 4) for loss in losses.values()])
    table([f"position, `{recipe}`", *losses], rows)


def growth_table(bench):
    """What each doubling of the position adds to the increase, by recipe."""
    names = [name for name in bench.models if "loss" in bench.analysis(name, bench.recipes[0])]
    table(["recipe", *names], [[f"`{recipe}`"] + [estimate(bench.analysis(name, recipe)["loss"], "increase_per_doubling", 4)
                                                  for name in names] for recipe in bench.recipes])


def range_table(bench, recipe, place, prefix=""):
    """Largest |x| of a token, mean over windows."""
    for name in bench.models:
        for stack in bench.analysis(name, recipe)["stacks"]:
            curves = [entry for entry in stack["ranges"] if entry["place"] == place]
            positions = curves[-1]["positions"]
            table([f"{name}, {stack['name']} ({stack['norms']}-norm), {place}", *map(span, positions)],
                  [[f"block {entry['block']}" if entry["block"] else "embedding"] +
                   [f"{position[prefix + 'magnitude']:.3g}" for position in entry["positions"]] for entry in curves])


def steadiness_table(bench, recipe):
    """How ranges of the float model depend on the position: geometric means, over blocks, of the first and the last octave over that of
    positions 9 to 16."""
    rows = []
    for name in bench.models:
        for stack in bench.analysis(name, recipe)["stacks"]:
            row = [f"{name}, {stack['name']} ({stack['norms']}-norm)"]
            for is_stream in (True, False):
                curves = [[position["magnitude"] for position in entry["positions"]] for entry in stack["ranges"]
                          if entry["block"] and (entry["place"] == "residual stream") == is_stream]
                logs = [[math.log(curve[i] / curve[4]) for curve in curves] for i in (0, -1)]
                row += [f"{math.exp(sum(ratios) / len(ratios)):.2f}" for ratios in logs]
                row.append(f"{max(map(max, curves)):.3g}")
            rows.append(row)
    table(["model", "stream: first", "last", "largest", "layer inputs: first", "last", "largest"], rows)


def noise_table(bench, recipe):
    """Decibels of the residual stream behind each block: all quantized / the block alone."""
    stacks = {}
    for name in bench.models:
        for stack in bench.analysis(name, recipe)["stacks"]:
            stacks[f"{name} {stack['name']}"] = [entry for entry in stack["signal_to_noise"] if entry["place"] == "residual stream"]
    depth = max(map(len, stacks.values()))
    rows = [[str(b + 1)] + [f"{decibels(s[b]['decibels'])} / {decibels(s[b]['alone_decibels'])}" if b < len(s) else ""
                            for s in stacks.values()] for b in range(depth)]
    table([f"block, `{recipe}`", *stacks], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--task", action="append", default=[])
    parser.add_argument("--recipes", default=RECIPES)
    parser.add_argument("--nibble", default="build/release/nibble")
    bench = Bench(parser.parse_args())
    bench.folder.mkdir(parents=True, exist_ok=True)
    bench.measure()
    cost_table(bench)
    if any("loss" in bench.analysis(name, bench.recipes[0]) for name in bench.models):
        growth_table(bench)
        position_table(bench, "rtn-w4row-a4")
    noise_table(bench, "rtn-w4row-a4")
    steadiness_table(bench, "rtn-w4row-a4")
    range_table(bench, "rtn-w4row-a4", "residual stream")
    range_table(bench, "rtn-w4row-a4", "qkv input")


if __name__ == "__main__":
    main()
