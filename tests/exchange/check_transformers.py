#!/usr/bin/env python3
"""Opens folders in Nibble's format with transformers, and compares its logits with Nibble's.

    NIBBLE_LIBRARY=build/release/lib/libnibble.so PYTHONPATH=python python3 check_transformers.py NIBBLE MODEL FOLDER [RECIPE ...]

Quantizes MODEL (a decoder) by each recipe into FOLDER; FOLDER keeps them. First without nibble.transformers, which must be an error; then with it:
nothing may be missing or unused, and logits lie within 1e-4 of those of Nibble with float activations. Ends with 1
otherwise. Needs torch and transformers (5.24 ran), on a CPU.
"""
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers

import nibble

RECIPES = ["rtn-w4g128-sym", "gptq-w4g128", "awq-w4g64", "nf4g64", "mxfp4", "any4", "best4", "fp8", "quarot-rtn-w4g128", "quarot-w4a4",
           "atom-w4a4", "w8a8", "smoothquant-w8a8"]
failures = []


def quantized(recipe):
    out = FOLDER / recipe
    if not out.exists():
        subprocess.run([NIBBLE, "quantize", MODEL, "-o", out, "--recipe", recipe, "--samples", "4", "--seq-len", "128", "-q"],
                       check=True, stdout=subprocess.DEVNULL)
    return out


def without_rounding(folder):
    """Recipes may round the inputs of layers, which plain layers do not: then a plain folder of the same weights."""
    schemes = json.loads((folder / "config.json").read_text())["quantization_config"]["layers"].values()
    if not any(re.search(r"-a(\d|fp)", scheme) for scheme in schemes):
        return folder
    out = folder.with_name(folder.name + "-plain")
    if not out.exists():
        subprocess.run([NIBBLE, "convert", folder, "--to", "hf", "--scheme", "f32", "-o", out, "-q"], check=True,
                       stdout=subprocess.DEVNULL)
    return out


def check_refusal(folder):
    try:
        transformers.AutoModelForCausalLM.from_pretrained(folder)
        failures.append("refusal")
        print("without nibble.transformers the folder is loaded")
    except ValueError as error:
        print("without nibble.transformers:", error)
        if "import nibble.transformers" not in str(error):
            failures.append("refusal")


def check(recipe, ids):
    folder = quantized(recipe)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True,
                                                                    attn_implementation="eager")
    wrong = {key: value for key, value in info.items() if value}
    with torch.no_grad():
        theirs = model(torch.tensor([ids])).logits[0]
    with nibble.LLM(without_rounding(folder), device="cpu", activations="float", kv_type="f32") as llm:
        ours = torch.from_numpy(llm.forward(ids))
    worst = (theirs - ours).abs().max().item()
    print(f"{recipe}: largest difference {worst:.2g} of logits up to {theirs.abs().max():.3g}; {wrong or 'all loaded'}", flush=True)
    if not worst <= 1e-4 or wrong:
        failures.append(recipe)


def main():
    with nibble.LLM(MODEL, device="cpu") as llm:
        ids = llm.tokenize("The history of the city begins with a library, which stood where two rivers meet.")
    recipes = sys.argv[4:] or RECIPES
    check_refusal(quantized(recipes[0]))
    importlib.import_module("nibble.transformers")
    for recipe in recipes:
        check(recipe, ids)
    print("failed: " + ", ".join(failures) if failures else "all as expected")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    NIBBLE, MODEL, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    FOLDER.mkdir(exist_ok=True, parents=True)
    main()
