#!/usr/bin/env python3
"""Measures how long `nibble tune --stage bqpo` takes on a GPU, and how much of its memory, for models of the shapes of Llama.

    bench/tuning_speed.py NIBBLE --tokenizer MODEL --text FILE --work FOLDER --output FILE [--shapes 7B,13B]
                          [--recipes rtn-w4g128] [--precisions bf16] [--layers 2] [--windows 34] [--seq-len 2048] [--batch 2]

Models have random weights and few layers. What a step takes comes from two runs that differ in epochs, and what a window takes on
its way through the blocks from two that differ in windows; both are free of start-up. From these, FILE gets the hours of all
layers with 4,096 windows and 2 epochs (EfficientQAT's block stage, arXiv 2407.11062) and 5 epochs (GQSA's, 2412.17560),
by proportion. Memory is that of the whole GPU at its peak, above what was taken before.
"""
import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import threading
import time

SHAPES = {"7B": {"hidden": 4096, "ffn": 11008, "heads": 32, "kv-heads": 32, "layers": 32},
          "13B": {"hidden": 5120, "ffn": 13824, "heads": 40, "kv-heads": 40, "layers": 40}}
WINDOWS = 4096


def call(words):
    began = time.perf_counter()
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stderr[-2000:]}")
    return time.perf_counter() - began


def used_memory():
    words = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[0])


class PeakMemory:
    """The most MiB of the first GPU while it is open, above what was taken before."""

    def __enter__(self):
        self.before, self.peak, self.open = used_memory(), 0, True
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while self.open:
            self.peak = max(self.peak, used_memory() - self.before)
            time.sleep(0.1)

    def __exit__(self, *_):
        self.open = False
        self.thread.join()


def many_words(text, path, count):
    words, generator = pathlib.Path(text).read_text(encoding="utf-8").split(), random.Random(0)
    path.write_text(" ".join(generator.choice(words) for _ in range(count)), encoding="utf-8")


class Job:
    def __init__(self, options, model, teacher, text, precision):
        self.options, self.model, self.teacher, self.text, self.precision = options, model, teacher, text, precision

    def seconds(self, windows, epochs):
        target = self.options.work / "tuned"
        shutil.rmtree(target, ignore_errors=True)
        return call([self.options.nibble, "tune", self.model, "-o", target, "--stage", "bqpo", "--device", "cuda", "--precision",
                     self.precision, "--teacher", self.teacher, "--calib", self.text, "--samples", windows, "--seq-len",
                     self.options.seq_len, "--batch", self.options.batch, "--epochs", epochs, "--patience", 99, "--lr", "1e-5",
                     "--quiet"])

    def measure(self):
        windows, layers, batch = self.options.windows, self.options.layers, self.options.batch
        self.seconds(windows, 1)  # reads files for the first time
        with PeakMemory() as memory:
            short = self.seconds(windows, 1)
            long = self.seconds(windows, 5)
            wide = self.seconds(2 * windows, 1)
        learned = windows - max(1, windows // 16)
        epoch = (long - short) / 4 / layers  # of a block, with the windows that judge
        step = epoch / -(-learned // batch)
        passing = (wide - short) / layers / windows - epoch / windows  # of a window, through both blocks
        return {"seconds_per_step": step, "tokens_per_s": batch * self.options.seq_len / step,
                "seconds_per_window_between_blocks": passing, "seconds_of_short_run": short, "peak_gib": memory.peak / 1024}


def hours(found, options, shape, epochs):
    block = WINDOWS * (found["seconds_per_window_between_blocks"] + epochs * found["seconds_per_step"] / options.batch)
    return shape["layers"] * block / 3600


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nibble", type=pathlib.Path)
    for name in ("tokenizer", "text", "work", "output"):
        parser.add_argument("--" + name, type=pathlib.Path, required=True)
    for name, value in (("shapes", "7B,13B"), ("recipes", "rtn-w4g128"), ("precisions", "bf16")):
        parser.add_argument("--" + name, default=value)
    for name, value in (("layers", 2), ("windows", 34), ("seq-len", 2048), ("batch", 2)):
        parser.add_argument("--" + name, type=int, default=value)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    text = options.work / "words.txt"
    many_words(options.text, text, 2 * options.windows * options.seq_len)
    maker = pathlib.Path(__file__).with_name("random_model.py")
    for name in options.shapes.split(","):
        teacher = options.work / f"float-{name}"
        sizes = [word for size, value in (SHAPES[name] | {"layers": options.layers}).items() for word in ("--" + size, value)]
        call([sys.executable, maker, teacher, "--tokenizer", options.tokenizer, "--scheme", "bf16", *sizes])
        for recipe in options.recipes.split(","):
            model = options.work / f"{recipe}-{name}"
            call([options.nibble, "quantize", teacher, "-o", model, "--recipe", recipe, "--calib", text, "--samples", 8, "--seq-len",
                  512, "--device", "cuda", "--quiet"])
            for precision in options.precisions.split(","):
                found = Job(options, model, teacher, text, precision).measure()
                line = {"shape": name, "recipe": recipe, "precision": precision, "batch": options.batch, "seq_len": options.seq_len,
                        **found, **{f"hours_of_{epochs}_epochs": hours(found, options, SHAPES[name], epochs) for epochs in (2, 5)}}
                print(json.dumps(line), flush=True)
                with options.output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
            shutil.rmtree(model)
        shutil.rmtree(teacher)


if __name__ == "__main__":
    main()
