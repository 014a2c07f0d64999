#!/usr/bin/env python3
"""Measures how long `nibble tune --device cuda` takes, and how much of the GPU's memory, for models of the shapes of Llama.

    bench/tuning_speed.py NIBBLE --tokenizer MODEL --text FILE --work FOLDER --output FILE [--shapes 7B,13B]
                          [--stages bqpo,e2e-oqp] [--recipes rtn-w4g128] [--precisions bf16] [--windows 34] [--seq-len 2048]
                          [--batch 2]

Models have random weights and few layers. What a step takes comes from two runs that differ in epochs, which is free of start-up.

bqpo: models of two layers. What a window takes on its way through the blocks comes from two runs that differ in windows. By
proportion, FILE gets the hours of all layers with 4,096 windows and 2 epochs (EfficientQAT's block stage, arXiv 2407.11062),
and 5 epochs (GQSA's, 2412.17560).

e2e-oqp: models of two and of four layers. By the line through both, FILE gets seconds per step and memory of all layers, and the
minutes of 50 steps.

Memory is that of the whole GPU at its peak, above what was taken before.
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
MORE_EPOCHS = {"bqpo": 6, "e2e-oqp": 3}  # of the longer run


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
    """Training of one model in one stage."""

    def __init__(self, options, stage, model, teacher, text, precision):
        self.options, self.stage, self.text = options, stage, text
        self.model, self.teacher, self.precision = model, teacher, precision

    def seconds(self, windows, epochs):
        target = self.options.work / "tuned"
        shutil.rmtree(target, ignore_errors=True)
        of_stage = {"bqpo": ["--epochs", epochs, "--patience", 99, "--lr", "1e-5"],
                    "e2e-oqp": ["--e2e-epochs", epochs, "--e2e-lr", "1e-5"]}
        return call([self.options.nibble, "tune", self.model, "-o", target, "--stage", self.stage, "--device", "cuda",
                     "--precision", self.precision, "--teacher", self.teacher, "--calib", self.text, "--samples", windows,
                     "--seq-len", self.options.seq_len, "--batch", self.options.batch, *of_stage[self.stage], "--quiet"])

    def measure(self, layers):
        """Of a block, where blocks are trained; else of the model."""
        windows, batch = self.options.windows, self.options.batch
        blocks = layers if self.stage == "bqpo" else 1
        with PeakMemory() as memory:
            short, long = self.seconds(windows, 1), self.seconds(windows, 1 + MORE_EPOCHS[self.stage])
        learned = windows - max(1, windows // 16)
        epoch = (long - short) / MORE_EPOCHS[self.stage] / blocks  # with the windows that judge, in bqpo
        found = {"seconds_per_step": epoch / -(-learned // batch), "seconds_of_short_run": short, "peak_gib": memory.peak / 1024}
        if self.stage == "bqpo":
            wide = self.seconds(2 * windows, 1)
            found["seconds_per_window_between_blocks"] = (wide - short) / layers / windows - epoch / windows
        return found


def hours_of_blocks(found, batch, layers, epochs):
    window = found["seconds_per_window_between_blocks"] + epochs * found["seconds_per_step"] / batch
    return layers * WINDOWS * window / 3600


def line_through(few, many, layers, key):
    slope = (many[key] - few[key]) / 2
    return few[key] + (layers - 2) * slope


class Bench:
    """One shape: its models are made when they are wanted."""

    def __init__(self, options, shape, text):
        self.options, self.shape, self.text = options, shape, text

    def teacher(self, layers):
        folder = self.options.work / f"float-{self.shape}-{layers}"
        if not folder.exists():
            maker = pathlib.Path(__file__).with_name("random_model.py")
            sizes = [word for size, value in (SHAPES[self.shape] | {"layers": layers}).items() for word in ("--" + size, value)]
            call([sys.executable, maker, folder, "--tokenizer", self.options.tokenizer, "--scheme", "bf16", "--output", "bf16",
                  *sizes])
        return folder

    def compressed(self, recipe, layers):
        folder = self.options.work / f"{recipe}-{self.shape}-{layers}"
        if not folder.exists():
            call([self.options.nibble, "quantize", self.teacher(layers), "-o", folder, "--recipe", recipe, "--calib", self.text,
                  "--samples", 8, "--seq-len", 512, "--device", "cuda", "--quiet"])
        return folder

    def measure(self, stage, recipe, precision, layers):
        return Job(self.options, stage, self.compressed(recipe, layers), self.teacher(layers), self.text, precision).measure(layers)

    def run(self, stage, recipe, precision):
        layers, options = SHAPES[self.shape]["layers"], self.options
        found = self.measure(stage, recipe, precision, 2)
        if stage == "bqpo":
            more = {f"hours_of_{epochs}_epochs": hours_of_blocks(found, options.batch, layers, epochs) for epochs in (2, 5)}
        else:
            many = self.measure(stage, recipe, precision, 4)
            whole = {f"{key}_of_all": line_through(found, many, layers, key) for key in ("seconds_per_step", "peak_gib")}
            more = whole | {"four_layers": many, "minutes_of_50_steps": 50 * whole["seconds_per_step_of_all"] / 60}
        tokens = options.batch * options.seq_len / found["seconds_per_step"]
        line = {"stage": stage, "shape": self.shape, "recipe": recipe, "precision": precision, "batch": options.batch,
                "seq_len": options.seq_len, **found, "tokens_per_s": tokens, **more}
        print(json.dumps(line), flush=True)
        with options.output.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def clear(self):
        for folder in self.options.work.glob(f"*-{self.shape}-*"):
            shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nibble", type=pathlib.Path)
    for name in ("tokenizer", "text", "work", "output"):
        parser.add_argument("--" + name, type=pathlib.Path, required=True)
    for name, value in (("shapes", "7B,13B"), ("stages", "bqpo,e2e-oqp"), ("recipes", "rtn-w4g128"), ("precisions", "bf16")):
        parser.add_argument("--" + name, type=lambda text: text.split(","), default=value.split(","))
    for name, value in (("windows", 34), ("seq-len", 2048), ("batch", 2)):
        parser.add_argument("--" + name, type=int, default=value)
    options = parser.parse_args()
    options.nibble = options.nibble.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    text = options.work / "words.txt"
    many_words(options.text, text, 2 * options.windows * options.seq_len)
    for shape in options.shapes:
        bench = Bench(options, shape, text)
        for stage in options.stages:
            for recipe in options.recipes:
                for precision in options.precisions:
                    bench.run(stage, recipe, precision)
        bench.clear()


if __name__ == "__main__":
    main()
