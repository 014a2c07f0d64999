#!/usr/bin/env python3
"""Reads with MLX what `nibble convert --to mlx` wrote, and with Nibble what mlx-lm wrote.

    NIBBLE_LIBRARY=build/release/lib/libnibble.so PYTHONPATH=python python3 check_mlx.py NIBBLE FLOAT_MODEL FOLDER [RECIPE ...]

Quantizes FLOAT_MODEL (a Llama with a tokenizer.json) by each recipe into FOLDER and converts it. Prints for each the
largest difference between the weights that mlx.core.dequantize gives in float32 and those of the source, the added error
by MLX and by Nibble, and the largest difference between the logits of mlx-lm's model in float32 and Nibble's. Then lets
mlx_lm.convert quantize FLOAT_MODEL, and compares the logits of both on that. Ends with 1 where something differs. Needs
mlx[cpu], mlx-lm, numpy; versions that ran: mlx 0.32.4, mlx-lm 0.32.2.
"""
import json
import pathlib
import shutil
import subprocess
import sys

import mlx.core as mx
import numpy as np
from mlx_lm.utils import load_model

import nibble

RECIPES = ["rtn-w4g128-sym", "rtn-w4g64", "rtn-w3g64", "rtn-w2g32", "rtn-w8g64-sym", "nf4g64"]
failures = []


def run(*words):
    done = subprocess.run([NIBBLE, *map(str, words), "--json", "-q"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"nibble {' '.join(map(str, words))}: {done.stderr}")
    return json.loads(done.stdout)


def by_nibble(folder):
    weights = {}
    nibble.dequantize(folder, lambda name, values: weights.__setitem__(name, values.copy()))
    return weights


def by_mlx(folder):
    settings = json.loads((folder / "config.json").read_text())["quantization"]
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors.update(mx.load(str(file)))
    weights = {}
    for name in [name.removesuffix(".scales") for name in tensors if name.endswith(".scales")]:
        scales, biases = (tensors[f"{name}.{part}"].astype(mx.float32) for part in ("scales", "biases"))
        weights[name] = np.array(mx.dequantize(tensors[f"{name}.weight"], scales, biases, settings["group_size"],
                                               settings["bits"]))
    return weights


def logits(folder, ids):
    """Of mlx-lm's model, with all that is no code in float32."""
    model, _ = load_model(folder)
    model.set_dtype(mx.float32)
    return np.array(model(mx.array([ids]))[0])


def own_logits(folder, ids):
    with nibble.LLM(folder, device="cpu", activations="float", kv_type="f32") as llm:
        return llm.forward(ids)


def worst(a, b):
    return float(np.abs(a - b).max())


def check(what, value, bound):
    print(f"{what}: {value:.3g}", flush=True)
    if not value <= bound:
        failures.append(what)


def check_export(recipe, ids):
    source, out = FOLDER / recipe, FOLDER / f"{recipe}-mlx"
    run("quantize", FLOAT, "-o", source, "--recipe", recipe)
    made = run("convert", source, "--to", "mlx", "-o", out)
    before, after = by_nibble(source), by_mlx(out)
    exact = made["exact_layers"] == len(made["layers"])
    print(f"{recipe} -> mlx {made['layers'][0]['to']}: {made['exact_layers']} of {len(made['layers'])} layers exact")
    assert before.keys() == after.keys() and before
    if exact:
        check("  weights of MLX against the source", max(worst(before[name], after[name]) for name in before), 0)
    squares = [sum(float(((after[name].astype(np.float64) - before[name]) ** 2).sum()) for name in before),
               sum(float((before[name].astype(np.float64) ** 2).sum()) for name in before)]
    error = (squares[0] / squares[1]) ** 0.5
    print(f"  added error by MLX {error:.4g}, Nibble says {made['relative_error']:.4g}")
    check("  they differ by", abs(error - made["relative_error"]), 1e-6 + 1e-3 * error)
    theirs, ours = logits(out, ids), own_logits(out, ids)
    check("  logits of mlx-lm against Nibble's of the same folder", worst(theirs, ours), 2e-3)


def check_import(bits, group, dtype, ids):
    from mlx_lm import convert
    out = FOLDER / f"mlx-lm-{bits}-{group}-{dtype}"
    shutil.rmtree(out, ignore_errors=True)
    convert(str(FLOAT), str(out), quantize=True, q_bits=bits, q_group_size=group, dtype=dtype)
    theirs, ours = logits(out, ids), own_logits(out, ids)
    notes = [note for note in run("inspect", out).get("not_as_stored", [])]
    print(f"mlx_lm.convert {bits} bits, groups of {group}, {dtype}: {notes}")
    check("  logits of mlx-lm against Nibble's, relative to the largest", worst(theirs, ours) / np.abs(theirs).max(), 1e-3)


def main():
    with nibble.LLM(FLOAT, device="cpu") as llm:
        ids = llm.tokenize("The history of the city begins with a library, which stood where two rivers meet.")
    check("float: logits of mlx-lm against Nibble's", worst(logits(FLOAT, ids), own_logits(FLOAT, ids)), 2e-3)
    for recipe in sys.argv[4:] or RECIPES:
        check_export(recipe, ids)
    for bits, group, dtype in [(4, 64, "float16"), (4, 64, "bfloat16"), (8, 32, "float16"), (6, 64, "float16"),
                               (3, 32, "float16")]:
        check_import(bits, group, dtype, ids)
    print("failed: " + ", ".join(failures) if failures else "all as expected")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    NIBBLE, FLOAT, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    FOLDER.mkdir(exist_ok=True, parents=True)
    main()
