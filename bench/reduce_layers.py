#!/usr/bin/env python3
"""Measures what an encoder-decoder writes in fewer bits and with fewer layers, trained and not.

    bench/reduce_layers.py NIBBLE MODEL --train us_train.tsv --test us_test.tsv --work FOLDER --output FILE
                           [--layers 6-6,6-3,6-1,3-6,1-6,3-3] [--pairs 20000 | --seconds 200] [--cores 2]
                           [--lr 1e-4] [--fewer-lr 7e-4]

MODEL runs as it is, and rounded in one shot by w8a8 and w4a8. Then `nibble tune --stage qat` trains students of the layers
that are named, in float (not those of all layers) and in w4a4, once through so many pairs; with --seconds, through as many as
the slowest of them reads in that time, measured in 20 steps. Each is measured before its first step, too. Students are trained
side by side on --cores, which they share. FILE gets a line for each; seconds include both measurements.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import shutil
import subprocess
import threading
import time

BATCH = 32
TRIAL = 20 * BATCH
SCORE = re.compile(r"(before training|epoch 1): .*word_acc ([\d.]+), per ([\d.]+)")


class Cores:
    """So many threads at a time."""

    def __init__(self, count):
        self.free, self.changed = count, threading.Condition()

    def run(self, threads, work):
        with self.changed:
            self.changed.wait_for(lambda: self.free >= threads)
            self.free -= threads
        try:
            return work()
        finally:
            with self.changed:
                self.free += threads
                self.changed.notify_all()


def call(words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stderr}")
    return done


def score(nibble, model, test, threads):
    words = [nibble, "tasks", model, "--seq2seq", test, "--threads", threads, "--json", "--quiet"]
    task = json.loads(call(words).stdout)["tasks"][0]
    return {"word_accuracy": task["word_accuracy"], "per": task["phoneme_error_rate"]}


def one_shot(options, recipe):
    folder = options.work / f"one-shot-{recipe}"
    shutil.rmtree(folder, ignore_errors=True)
    call([options.nibble, "quantize", options.model, "-o", folder, "--recipe", recipe, "--threads", "1", "--quiet"])
    row = {"layers": options.layers[0], "recipe": recipe} | score(options.nibble, folder, options.test, 1)
    shutil.rmtree(folder)
    return row


def rate(options, layers):
    return options.lr if layers == options.layers[0] else options.fewer_lr


def train(options, student, pairs, data):
    """The log of a training run, and the seconds that it took."""
    layers, recipe, threads = student
    encoder, decoder = layers.split("-")
    folder = options.work / f"student-{layers}-{recipe}"
    shutil.rmtree(folder, ignore_errors=True)
    start = time.monotonic()
    log = call([options.nibble, "tune", options.model, "-o", folder, "--stage", "qat", "--data", data, "--limit", pairs,
                "--recipe", recipe, "--encoder-layers", encoder, "--decoder-layers", decoder, "--lr", rate(options, layers),
                "--batch", BATCH, "--kd", options.kd, "--threads", threads]).stderr
    shutil.rmtree(folder)
    return log, time.monotonic() - start


def students_of(options):
    """(layers, recipe, threads) of each, the slowest first."""
    wanted = [(layers, recipe) for layers in options.layers for recipe in ("w4a4", "f16")
              if recipe != "f16" or layers != options.layers[0]]
    wanted.sort(key=lambda student: -sum(map(int, student[0].split("-"))))
    threads, more = divmod(options.cores, len(wanted))
    return [(*student, max(1, threads + (i < more))) for i, student in enumerate(wanted)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nibble", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--train", type=pathlib.Path, required=True)
    parser.add_argument("--test", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--layers", type=lambda text: text.split(","), default="6-6,6-3,6-1,3-6,1-6,3-3".split(","))
    parser.add_argument("--pairs", type=int, default=20000)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--lr", default="1e-4", help="of students of all layers")
    parser.add_argument("--fewer-lr", default="7e-4", help="of the others")
    parser.add_argument("--kd", default="logits=1,hidden=1,attention=1")
    options = parser.parse_args()
    options.nibble = options.nibble.resolve()
    data = options.work / "pairs"
    data.mkdir(parents=True, exist_ok=True)
    shutil.copy(options.train, data / "train.tsv")
    shutil.copy(options.test, data / "dev.tsv")
    cores, lock = Cores(options.cores), threading.Lock()
    output = options.output.open("w", encoding="utf-8")

    def keep(row):
        with lock:
            print(json.dumps({"model": options.model.name} | row), file=output, flush=True)
            print(row, flush=True)

    keep({"layers": options.layers[0], "recipe": "float"} | score(options.nibble, options.model, options.test, 1))
    for recipe in ("w8a8", "w4a8"):
        keep(one_shot(options, recipe))
    students = students_of(options)
    with concurrent.futures.ThreadPoolExecutor(len(students)) as pool:
        def all_of(work):
            return list(pool.map(lambda student: cores.run(student[2], lambda: work(student)), students))

        pairs = options.pairs
        if options.seconds:
            trials = all_of(lambda student: train(options, student, TRIAL, data / "train.tsv"))
            step = max(seconds for _, seconds in trials) * BATCH / TRIAL
            pairs = max(1, int(options.seconds / step)) * BATCH
            pairs = min(pairs, len(options.train.read_text(encoding="utf-8").splitlines()))
            print(f"{step:.3f} s a step at the most: {pairs} pairs", flush=True)

        def finish(student):
            log, seconds = train(options, student, pairs, data)
            found = {when: (float(right), float(wrong)) for when, right, wrong in SCORE.findall(log)}
            before, after = found["before training"], found["epoch 1"]
            keep({"layers": student[0], "recipe": student[1], "pairs": pairs, "steps": -(-pairs // BATCH), "lr": rate(options, student[0]),
                  "threads": student[2], "before": {"word_accuracy": before[0], "per": before[1]},
                  "word_accuracy": after[0], "per": after[1], "seconds": round(seconds)})

        all_of(finish)


if __name__ == "__main__":
    main()
