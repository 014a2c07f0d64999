#!/usr/bin/env python3
"""Measures a model that another tool quantized, by `nibble eval`, and adds a line to bench/results/peers.jsonl.

    bench/measure_peers.py RESULTS FILE --original FOLDER --text FILE --model NAME --tool NAME --version TEXT \\
        --setting TEXT [--calibration TEXT] [--note TEXT] [--weights FILE] [--transformers PERPLEXITY]

FILE is a GGUF file or a folder. It is evaluated as bench/measure_accuracy.py does it: the first 40,960 tokens of the text in
windows of 1,024, with float activations. Bits are those of all tensors of the linear layers of the blocks in the file
(codes, scales, zero points, orders), over the number of their weights. What is the same for every layer does not count:
code books and JSON of bitsandbytes, shapes of compressed-tensors, and the g_idx of GPTQ where groups stand in order.
--weights FILE counts the bits of another safetensors file, where FILE holds decoded weights.
bench/result_tables.py makes tables of the lines.
"""
import argparse
import datetime
import json
import math
import re
import struct
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EVALUATION = ["--seq-len", "1024", "--max-tokens", "40960", "--activations", "float", "--quiet", "--json"]
BLOCK = re.compile(r"\.layers\.\d+\.(?!.*norm)")
CONSTANTS = re.compile(r"\.weight_shape$|quant_map$|\.quant_state\.")
SIZES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U8": 1, "I8": 1, "BOOL": 1}


def header(path):
    """Names, types and shapes of a safetensors file."""
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        return {name: entry for name, entry in json.loads(file.read(length)).items() if name != "__metadata__"}


def stored(path):
    """Bytes of the tensors of the blocks' linear layers in a folder or a safetensors file, by name."""
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    tensors = {name: entry for file in files for name, entry in header(file).items()}
    ordered = not path.is_dir() or reorders(path)
    return {name: math.prod(entry["shape"]) * SIZES[entry["dtype"]] for name, entry in tensors.items()
            if BLOCK.search(name) and not CONSTANTS.search(name) and (ordered or not name.endswith(".g_idx"))}


def reorders(folder):
    """Whether inputs of a GPTQ folder stand in an order of their own."""
    return json.loads((folder / "config.json").read_text()).get("quantization_config", {}).get("desc_act", False)


def gguf_bytes(path):
    """The same of a GGUF file. Norms have one dimension."""
    import gguf  # PyPI, for GGUF files alone
    return {tensor.name: int(tensor.n_bytes) for tensor in gguf.GGUFReader(path).tensors
            if tensor.name.startswith("blk.") and len(tensor.shape) == 2}


def types(path):
    """The block types of a GGUF file and how many layers have each, the most frequent first."""
    import gguf
    found = {}
    for tensor in gguf.GGUFReader(path).tensors:
        if tensor.name.startswith("blk.") and len(tensor.shape) == 2:
            found[tensor.tensor_type.name] = found.get(tensor.tensor_type.name, 0) + 1
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))


def bits(path, original):
    weights = sum(math.prod(entry["shape"]) for file in original.glob("*.safetensors")
                  for name, entry in header(file).items() if BLOCK.search(name))
    return 8 * sum((gguf_bytes if path.suffix == ".gguf" else stored)(path).values()) / weights


def evaluate(nibble, model, text, threads):
    command = [nibble, "eval", str(model), "--text", str(text), "--threads", str(threads), *EVALUATION]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["perplexity"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--original", type=Path, required=True, help="folder of the float model")
    parser.add_argument("--original-perplexity", type=float, help="if it is known")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--text-name", default="docs")
    for name in ("--model", "--tool", "--version", "--setting"):
        parser.add_argument(name, required=True)
    parser.add_argument("--calibration", default="none")
    parser.add_argument("--note")
    parser.add_argument("--weights", type=Path, help="safetensors file whose bits count")
    parser.add_argument("--transformers", type=float, help="perplexity that transformers gives")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--nibble", default=str(ROOT / "build/release/nibble"))
    options = parser.parse_args()

    original = options.original_perplexity or evaluate(options.nibble, options.original, options.text, options.threads)
    perplexity = evaluate(options.nibble, options.file, options.text, options.threads)
    line = {"model": options.model, "tool": options.tool, "version": options.version, "setting": options.setting,
            "calibration": options.calibration, "bits": round(bits(options.weights or options.file, options.original), 6),
            "text": options.text_name, "perplexity": perplexity, "increase": 100 * (perplexity / original - 1),
            "evaluated_by": "nibble eval --activations float", "date": datetime.date.today().isoformat()}
    if options.file.suffix == ".gguf":
        line["types"] = types(options.file)
    if options.transformers:
        line["transformers"] = options.transformers
    if options.note:
        line["note"] = options.note
    with open(options.results, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    print(f"{options.tool} {options.setting}: {line['bits']:.3f} bits, {line['increase']:+.2f} %", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
