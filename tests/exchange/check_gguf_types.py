#!/usr/bin/env python3
"""Compares the types of GGUF that Nibble rounds to with ggml's and llama.cpp's own code.

    python3 check_gguf_types.py NIBBLE FLOAT_MODEL FOLDER [--types Q4_K,IQ4_NL] [--text FILE] [FILE.gguf ...]

For each type (all of them, if none is named) FLOAT_MODEL, a folder of the Llama family, becomes FOLDER/TYPE.gguf by
`nibble convert --scheme TYPE`. Printed are the largest difference between the weights that gguf.dequantize makes of the file
and those that Nibble decodes from it, and the Frobenius norm of the error of the layers that have the type, relative to that
of the weights: Nibble's, and that of ggml's quantizer of the type (without an importance matrix).

With --text the given files, or those that were made, run in llama.cpp and in Nibble: the perplexity of the first 256 tokens
of the text (of llama.cpp from the log-probabilities of its server), and whether both write the same greedy tokens.

Ends with 1 where weights differ at all. Needs gguf, numpy, safetensors, tokenizers and xllamacpp of PyPI, and a CPU.
"""
import argparse
import ctypes
import json
import math
import pathlib
import subprocess
import sys

import gguf
import numpy as np
import xllamacpp
from tokenizers import Tokenizer

TYPES = ["Q2_K", "Q3_K", "IQ4_XS", "MXFP4", "Q4_0", "Q4_K", "IQ4_NL", "Q4_1", "Q5_0", "Q5_K", "Q5_1", "Q6_K", "Q8_0"]
NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
WINDOW = 256
PROMPTS = ["The history of the city begins with", "A library is", "To install the program, first"]
GREEDY = 24


def nibble(*words):
    done = subprocess.run([ARGUMENTS.nibble, *map(str, words), "--json", "-q"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"nibble {' '.join(map(str, words))}: {done.stderr}")
    return json.loads(done.stdout)


def folder_weights(folder):
    """The tensors of a folder, in float32."""
    weights = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        data = path.read_bytes()
        length = int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8:8 + length]).items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            raw = data[8 + length + begin:8 + length + end]
            if entry["dtype"] == "BF16":
                values = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
            else:
                values = np.frombuffer(raw, {"F16": "<f2", "F32": "<f4"}[entry["dtype"]]).astype(np.float32)
            weights[name] = values.reshape(entry["shape"])
    return weights


def layer_name(tensor):
    """The name of a layer in a folder; None for tensors that are none."""
    part = tensor.split(".")
    known = part[0] == "blk" and part[2] in NAMES and part[3] == "weight"
    return f"model.layers.{part[1]}.{NAMES[part[2]]}.weight" if known else None


def in_folder_order(tensor, value, config):
    """Query and key rows, back from llama.cpp's order."""
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    count = heads.get(tensor.split(".")[2])
    return value if count is None else value.reshape(count, value.shape[0] // count // 2, 2, -1).swapaxes(1, 2).reshape(value.shape)


def ggml_error(kind, weights):
    """The squared error of ggml's own quantizer."""
    quantize = getattr(GGML, f"quantize_{kind.lower().replace('_k', '_K')}")
    quantize.restype = ctypes.c_size_t
    quantize.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    number = gguf.GGMLQuantizationType[kind]
    elements, size = gguf.GGML_QUANT_SIZES[number]
    weights = np.ascontiguousarray(weights)
    blocks = np.zeros((weights.shape[0], weights.shape[1] // elements * size), np.uint8)
    quantize(weights.ctypes.data, blocks.ctypes.data, *weights.shape, None)
    return squared(weights - gguf.quants.dequantize(blocks, number))


def squared(values):
    return float((values.astype(np.float64) ** 2).sum())


def check_type(kind, source, config):
    """Whether gguf.dequantize reads what Nibble reads."""
    path = ARGUMENTS.folder / f"{kind}.gguf"
    nibble("convert", ARGUMENTS.model, "--to", "gguf", "--scheme", kind, "-o", path)
    nibble("convert", path, "--to", "hf", "--scheme", "f32", "-o", ARGUMENTS.folder / f"{kind}-plain")
    own = folder_weights(ARGUMENTS.folder / f"{kind}-plain")
    worst, layers, of_all, ours, theirs = 0.0, 0, 0.0, 0.0, 0.0
    for tensor in gguf.GGUFReader(path).tensors:
        name = layer_name(tensor.name)
        if name is None:
            continue
        value = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        value = in_folder_order(tensor.name, value, config)
        worst = max(worst, float(np.abs(value - own[name]).max()))
        if tensor.tensor_type.name != kind:
            continue
        layers += 1
        of_all += squared(source[name])
        ours += squared(value - source[name])
        theirs += ggml_error(kind, source[name])
    print(f"{kind}: gguf.dequantize differs by {worst:g} at most; {layers} layers: error {100 * math.sqrt(ours / of_all):.3f} %, "
          f"ggml {100 * math.sqrt(theirs / of_all):.3f} %", flush=True)
    return worst == 0 and layers > 0


def llama_cpp(path):
    settings = xllamacpp.CommonParams()
    settings.model.path, settings.n_ctx, settings.warmup, settings.n_parallel = str(path), 512, False, 1
    settings.cpuparams.n_threads = 2
    server = xllamacpp.Server(settings)

    def complete(**words):
        answer = server.handle_completions({"temperature": 0, **words})
        return (json.loads(answer) if isinstance(answer, (bytes, str)) else answer)["choices"][0]

    return complete


def llama_cpp_perplexity(complete, ids, vocabulary):
    """From the log-probabilities of each token behind those before it."""
    total = 0.0
    for count in range(1, len(ids)):
        for listed in (64, 1024, vocabulary):
            answer = complete(prompt=ids[:count], max_tokens=1, n_probs=listed, cache_prompt=True)
            found = {entry["id"]: entry["logprob"] for entry in answer["logprobs"]["content"][0]["top_logprobs"]}
            if ids[count] in found:
                break
        total -= found[ids[count]]
    return math.exp(total / (len(ids) - 1))


def check_text(path, ids, vocabulary):
    kinds = {}
    for tensor in gguf.GGUFReader(path).tensors:
        if layer_name(tensor.name):
            kinds[tensor.tensor_type.name] = kinds.get(tensor.tensor_type.name, 0) + 1
    complete = llama_cpp(path)
    theirs = llama_cpp_perplexity(complete, ids, vocabulary)
    ours = {}
    for activations in ("float", "int8"):
        ours[activations] = nibble("eval", path, "--text", ARGUMENTS.text, "--seq-len", WINDOW, "--max-tokens", WINDOW,
                                   "--activations", activations)["perplexity"]
    same = 0
    for prompt in PROMPTS:
        text = complete(prompt=prompt, max_tokens=GREEDY, cache_prompt=False, ignore_eos=True)["text"]
        written = nibble("run", path, "-p", prompt, "-n", GREEDY, "--temp", 0, "--ignore-eos")["text"]
        same += written.removeprefix(prompt) == text
    mix = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    print(f"{path.name} ({mix}): perplexity {theirs:.4f} in llama.cpp, {ours['int8']:.4f} in Nibble, {ours['float']:.4f} with "
          f"float activations; {same} of {len(PROMPTS)} greedy texts of {GREEDY} tokens are the same", flush=True)


def main():
    ARGUMENTS.folder.mkdir(parents=True, exist_ok=True)
    config = json.loads((ARGUMENTS.model / "config.json").read_text())
    good = True
    files = ARGUMENTS.files
    if not files:
        source = folder_weights(ARGUMENTS.model)
        for kind in ARGUMENTS.types.split(","):
            good = check_type(kind, source, config) and good
            files.append(ARGUMENTS.folder / f"{kind}.gguf")
    if ARGUMENTS.text:
        tokenizer = Tokenizer.from_file(str(ARGUMENTS.model / "tokenizer.json"))
        ids = tokenizer.encode(ARGUMENTS.text.read_text(), add_special_tokens=False).ids[:WINDOW]
        for path in files:
            check_text(path, ids, config["vocab_size"])
    return 0 if good else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nibble")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--text", type=pathlib.Path)
    ARGUMENTS = parser.parse_args()
    GGML = ctypes.CDLL(next(str(path) for path in pathlib.Path(xllamacpp.__file__).parent.glob("*.so")))
    sys.exit(main())
