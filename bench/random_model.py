#!/usr/bin/env python3
"""Writes a Llama-shaped model of random weights, to measure speed with: no float model is
made on the way, so 7B shapes take seconds.

    bench/random_model.py FOLDER --tokenizer MODEL [--scheme int4-sym-g128] [--output int8-sym-row]
                          [--hidden 4096 --ffn 11008 --heads 32 --kv-heads 32 --layers 32 --vocabulary 32000]

Schemes are integers, "int<bits>-sym-g<N>" or "-row", with "-a8" behind, or "bf16". The tokenizer is that of
MODEL; its ids must lie below the vocabulary.
"""
import argparse
import json
import pathlib
import re
import shutil
import struct

import numpy as np

SCHEME = re.compile(r"int([48])-sym-(g(\d+)|row)(-a8)?$")


class Writer:
    """One safetensors file; tensors are given as functions that make their bytes."""

    def __init__(self):
        self.tensors = []

    def add(self, name, dtype, shape, values):
        size = int(np.prod(shape)) * {"U8": 1, "F16": 2, "BF16": 2}[dtype]
        self.tensors.append((name, dtype, shape, size, values))

    def write(self, path):
        header, at = {}, 0
        for name, dtype, shape, size, _ in self.tensors:
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for _, _, _, size, values in self.tensors:
                file.write(values(size))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tokenizer", type=pathlib.Path, required=True)
    parser.add_argument("--scheme", default="int4-sym-g128")
    parser.add_argument("--output", default="int8-sym-row")
    for name, value in (("hidden", 4096), ("ffn", 11008), ("heads", 32), ("kv-heads", 32), ("layers", 32), ("vocabulary", 32000)):
        parser.add_argument("--" + name, type=int, default=value)
    args = parser.parse_args()
    noise = np.random.default_rng(0).integers(0, 256, 1 << 24, dtype=np.uint8).tobytes()
    writer, layers = Writer(), {}

    def random_bytes(size):
        return (noise * (size // len(noise) + 1))[:size]

    def linear(name, n, k, scheme):
        if scheme == "bf16":
            writer.add(name + ".weight", "BF16", [n, k], small_values)
            return
        match = SCHEME.match(scheme)
        if not match:
            parser.error(f"scheme {scheme} is not one of these")
        bits, group = int(match[1]), int(match[3]) if match[3] else k
        layers[name] = scheme
        scale = np.float16(1.0 / (np.sqrt(k) * 2**bits * 0.29))  # outputs of variance 1
        groups = -(-k // group)
        writer.add(name + ".codes", "U8", [n, k * bits // 8], random_bytes)
        writer.add(name + ".scales", "F16", [n, groups], lambda size: np.full(size // 2, scale, np.float16).tobytes())

    def ones(name, size):
        writer.add(name, "BF16", [size], lambda count: np.full(count // 2, 0x3F80, np.uint16).tobytes())

    def small_values(size):  # bfloat16 of magnitude 2^-7 to 2^-6
        return (np.frombuffer(random_bytes(size), np.uint16) & 0x807F | 0x3C00).astype(np.uint16).tobytes()

    width, kv_width = args.hidden, args.hidden // args.heads * args.kv_heads
    writer.add("model.embed_tokens.weight", "BF16", [args.vocabulary, width], small_values)
    for i in range(args.layers):
        block = f"model.layers.{i}."
        for name, n, k in (("self_attn.q_proj", width, width), ("self_attn.k_proj", kv_width, width),
                           ("self_attn.v_proj", kv_width, width), ("self_attn.o_proj", width, width),
                           ("mlp.gate_proj", args.ffn, width), ("mlp.up_proj", args.ffn, width),
                           ("mlp.down_proj", width, args.ffn)):
            linear(block + name, n, k, args.scheme)
        ones(block + "input_layernorm.weight", width)
        ones(block + "post_attention_layernorm.weight", width)
    ones("model.norm.weight", width)
    linear("lm_head", args.vocabulary, width, args.output)

    args.folder.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(args.tokenizer / name, args.folder)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": width,
              "intermediate_size": args.ffn, "num_attention_heads": args.heads, "num_key_value_heads": args.kv_heads,
              "num_hidden_layers": args.layers, "vocab_size": args.vocabulary, "max_position_embeddings": 4096,
              "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    if layers:
        config["quantization_config"] = {"quant_method": "nibble", "format_version": 1, "keeps_inputs": True,
                                         "recipe": f"random {args.scheme}", "layers": layers}
    (args.folder / "config.json").write_text(json.dumps(config, indent=1))
    writer.write(args.folder / "model.safetensors")


if __name__ == "__main__":
    main()
