#!/usr/bin/env python3
"""How much each part of a layer bears: an encoder's task with every type of numbers in all four parts, and in each alone.

    bench/sensitivity.py MODEL TASK DATA [--types w8a8,w4a8,...] [--threads N] [--json FILE]

DATA is the .tsv file of the task, as `nibble tasks --data` takes it. Each model is made by `nibble quantize
--quantize-parts` (rounding to nearest; the other parts stay float) and scored by `nibble tasks`. Prints a table in
Markdown: a row for each type, a column for each choice of parts; the first row is the float model. With --json the
numbers go to a file, and those that it holds already are not measured again.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = ["qkv", "out", "mlp-in", "mlp-out"]
TYPES = ["w8a8", "w4a8", "w4a8-asym", "w4a8g128", "w4a8g128-asym", "w4a4", "w4a4-asym", "w4a4g128", "w4a4g128-asym",
         "int4-sym-g32-a4g32", "int4-asym-g32-a4g32-asym"]
METRICS = ["acc", "pearson", "mcc", "f1"]  # the first that a task has is shown


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.file = Path(arguments.json) if arguments.json else None
        self.known = json.loads(self.file.read_text()) if self.file and self.file.exists() else {}

    def call(self, *words):
        return subprocess.run([self.arguments.nibble, *words, "--threads", str(self.arguments.threads), "--quiet",
                               "--json"], check=True, capture_output=True, text=True).stdout

    def score(self, folder):
        result = json.loads(self.call("tasks", str(folder), "--task", self.arguments.task, "--data",
                                      self.arguments.data))["tasks"][0]
        return next(result[metric] for metric in METRICS if metric in result)

    def measure(self, kind, parts):
        """The score with `parts` of this type; without a type, of the float model."""
        key = "float" if kind is None else f"{kind} {'+'.join(parts)}"
        if key not in self.known:
            print(key, file=sys.stderr)
            if kind is None:
                self.known[key] = self.score(self.arguments.model)
            else:
                with tempfile.TemporaryDirectory() as temporary:
                    folder = Path(temporary) / "made"
                    self.call("quantize", self.arguments.model, "-o", str(folder), "--quantize-parts",
                              ",".join(f"{part}={kind}" for part in parts))
                    self.known[key] = self.score(folder)
            if self.file:
                self.file.write_text(json.dumps(self.known, indent=1) + "\n")
        return self.known[key]

    def table(self):
        choices = [PARTS] + [[part] for part in PARTS]
        yield "| type | all | " + " | ".join(PARTS) + " |"
        yield "| --- |" + " --- |" * len(choices)
        yield f"| float | {self.measure(None, []):.4f} |" + " |" * len(PARTS)
        for kind in self.arguments.types.split(","):
            scores = [self.measure(kind, parts) for parts in choices]
            yield f"| `{kind}` | " + " | ".join(f"{score:.4f}" for score in scores) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("task")
    parser.add_argument("data")
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json")
    parser.add_argument("--nibble", default=str(ROOT / "build/release/nibble"))
    for line in Bench(parser.parse_args()).table():
        print(line, flush=True)


if __name__ == "__main__":
    main()
