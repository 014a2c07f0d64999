#!/usr/bin/env python3
"""Trains compressed decoders stage by stage and measures the perplexity behind each stage.

    bench/measure_tuning.py RESULTS RUNS --model NAME=FOLDER ... --text NAME=FILE ... --calib NAME=FILE ... \\
        --held-out FILE --work FOLDER [--device cuda] [--jobs N] [--threads N] [--seconds N]

RUNS has a line for each run, the most important first: a model, a recipe, and the stages of `nibble tune` with their options:

    lm-26m gqsa-w4s50 bqpo,epochs=5,lr=3e-3,batch=2 e2e-oqp,e2e-epochs=2,e2e-lr=3e-3,batch=2

    lm-26m original qat,recipe=w4a4,seq-len=1024,epochs=2,lr=1e-3,kd=labels=0.5+logits=1

A + stands for a comma in what an option takes. The recipe `original` is the float model; `qat` starts from it. Runs that begin
alike share what they have in common. Calibration and training read the first text of --calib, or the texts that a stage names
(`text=mixed+other`).

Adds one line of JSON for each step to RESULTS (bench/results/tuning.jsonl) and leaves out those that are there, so that it can be
interrupted and repeated. A step that a model refuses is written down with the refusal. --held-out is a text that is like the one
learned from, and no part of it: by its perplexity the tables choose among runs of one recipe, never by those of --text.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from measurements import read

ROOT = Path(__file__).resolve().parent.parent
EVALUATION = ["--seq-len", "1024", "--max-tokens", "40960", "--activations", "float", "--quiet", "--json"]
ONE_SHOT = ["--samples", "128", "--seq-len", "1024"]
TUNING = {"samples": "65536", "seq-len": "512"}  # as many windows as the text has
ORIGINAL = "original"
STUDENT = "qat"  # its teacher is the model that it starts from


def named(pairs):
    return dict(pair.split("=", 1) for pair in pairs)


class OutOfTime(Exception):
    pass


class Refused(Exception):
    pass


@dataclasses.dataclass
class Finished:
    """What a command printed, the seconds it took and the most memory that it held."""

    output: str
    seconds: float
    megabytes: int


def steps_of(line):
    """The steps of a run: its recipe, then one stage more each time. ("lm-26m", "gqsa-w4s50", "bqpo,lr=3e-3")"""
    words = tuple(line.split())
    return [words[:count] for count in range(2, len(words) + 1)]


class Bench:
    def __init__(self, options):
        self.options = options
        self.models, self.texts, self.calibrations = named(options.model), named(options.text), named(options.calib)
        self.deadline = time.monotonic() + options.seconds
        self.rows = {tuple(row["steps"]): row for row in read(options.results) if "steps" in row}
        self.lock, self.locks = threading.Lock(), {}

    def call(self, *words):
        words = [self.options.nibble, *map(str, words), "--threads", str(self.options.threads)]
        began = time.monotonic()
        with tempfile.TemporaryFile("w+") as output:
            child = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT)
            timer = threading.Timer(max(0.0, self.deadline - began), child.kill)
            timer.start()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            timer.cancel()
            output.seek(0)
            text = output.read()
        if time.monotonic() >= self.deadline:
            raise OutOfTime(" ".join(words))
        if child.returncode != 0:
            raise Refused(text.strip().splitlines()[-1] if text.strip() else f"exit {child.returncode}")
        return Finished(text, time.monotonic() - began, usage.ru_maxrss // 1024)

    def folder(self, steps):
        return Path(self.models[steps[0]]) if steps[1:] == (ORIGINAL,) else self.options.work / "+".join(steps)

    def command(self, steps):
        """What makes the model of these steps from the one before."""
        made, device = self.folder(steps), ["--device", self.options.device]
        first = next(iter(self.calibrations))
        if len(steps) == 2:
            return ["quantize", self.models[steps[0]], "-o", made, "--recipe", steps[1], "--calib", self.calibrations[first], *ONE_SHOT,
                    *device]
        stage, *pairs = steps[-1].split(",")
        settings = TUNING | named(pairs)
        if stage != STUDENT:
            settings["teacher"] = self.models[steps[0]]
        texts = [self.calibrations[name] for name in settings.pop("text", first).split("+")]
        return ["tune", self.folder(steps[:-1]), "-o", made, "--stage", stage, "--calib", *texts,
                *(word for name, value in settings.items() for word in ("--" + name, value.replace("+", ","))), *device]

    def evaluate(self, folder):
        found = {name: json.loads(self.call("eval", folder, "--text", text, *EVALUATION, "--device", self.options.evaluate_on).output)
                 for name, text in (self.texts | {"held-out": self.options.held_out}).items()}
        perplexity = {name: round(result["perplexity"], 4) for name, result in found.items()}
        return {"bits": round(found["held-out"]["bits_per_weight"], 4), "held_out": perplexity.pop("held-out"), "perplexity": perplexity}

    def measure(self, steps):
        row = {"model": steps[0], "recipe": steps[1], "steps": steps}
        if steps[1:] == (ORIGINAL,):
            return row | self.evaluate(self.folder(steps))
        row["device"] = self.options.device_name
        folder = self.folder(steps)
        for left in (folder, folder.with_name(f".{folder.name}.partial")):  # of a run that was interrupted
            shutil.rmtree(left, ignore_errors=True)
        try:
            made = self.call(*self.command(steps))
        except Refused as refusal:
            return row | {"refused": str(refusal)}
        if windows := re.search(r"(\d+) to learn from|(\d+) texts, ", made.output):
            row["windows"] = int(windows[1] or windows[2])
        return row | {"seconds": round(made.seconds, 1), "megabytes": made.megabytes} | self.evaluate(folder)

    def step(self, steps):
        """Whether the model of these steps is there, measured."""
        with self.lock:
            own = self.locks.setdefault(steps, threading.Lock())
        with own:
            row = self.rows.get(steps)
            if row is None:
                row = self.measure(steps)
                with self.lock, self.options.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                self.rows[steps] = row
                print(f"{time.strftime('%T')} {' '.join(steps)}: {row.get('refused') or (row['held_out'], row['perplexity'])}", flush=True)
            elif "refused" not in row and not self.folder(steps).exists():
                self.call(*self.command(steps))
        return "refused" not in row

    def run(self, line):
        """None, or why the run stopped."""
        steps = steps_of(line)
        if all(step in self.rows for step in steps):
            return None
        try:
            for step in steps:
                if not self.step(step):
                    return None
        except (OutOfTime, Refused) as error:
            return f"{line}: {type(error).__name__} {error}"
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--model", action="append", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--text", action="append", required=True, metavar="NAME=FILE")
    parser.add_argument("--calib", action="append", required=True, metavar="NAME=FILE")
    parser.add_argument("--held-out", required=True, metavar="FILE")
    parser.add_argument("--work", type=Path, required=True, metavar="FOLDER", help="keeps the models of all steps")
    parser.add_argument("--device", default="cuda", help="of nibble quantize and nibble tune")
    parser.add_argument("--evaluate-on", default="cpu", metavar="DEVICE", help="of nibble eval; a GPU's activations have 16 bits")
    parser.add_argument("--device-name", default="H100", help="for the results")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--threads", type=int, default=2, help="of each job")
    parser.add_argument("--seconds", type=float, default=86400, help="what is not done by then is left out")
    parser.add_argument("--nibble", default=str(ROOT / "build/release/nibble"))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    bench = Bench(options)
    lines = [line for line in options.runs.read_text(encoding="utf-8").splitlines() if line.strip() and not line.startswith("#")]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        failures = [failure for failure in pool.map(bench.run, lines) if failure]
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
