#!/usr/bin/env python3
"""Writes a Llama-shaped model of random weights, to measure speed with: no float model is
made on the way, so 7B shapes take seconds. Or an encoder in float32, as BERT-base and -large are.

    bench/random_model.py FOLDER --tokenizer MODEL [--scheme int4-sym-g128] [--output int8-sym-row] [--kept 0.5]
                          [--hidden 4096 --ffn 11008 --heads 32 --kv-heads 32 --layers 32 --vocabulary 32000]
    bench/random_model.py FOLDER --tokenizer MODEL --bert base|large [--seed 0]

Schemes are integers of 2, 3, 4 or 8 bits, "int<bits>-sym-g<N>", "-asym" or "-row", with "-a8", "-a4", "-a3" or "-afp4" behind, also
"-a4g128c0.9", "-h128" and "-tail128" (Atom: the last inputs of a random order in INT8); "lut4-fp4-g<N>" and "lut4-nf4-g<N>", with the same; learned
books of 2, 3 or 4 bits, "lut<bits>-row-g<N>" or "lut<bits>-matrix-g<N>" (any4, any3, any2); block-sparse rows,
"int<bits>-asym-g<N>-bsr" or "f16-g<N>-bsr", which keep a share of their groups, "-bsr-t16" the same ones of each 16 rows, "-s7-bsr" scales of 7 bits; blocks of GGUF files, "int<bits>-min-g<N>", "-s8" or
"int<bits>-sym-g<N>-s8"; two of each four weights, "-2of4" behind integers of 4 or 8 bits (and before "-a8"), or "f16-2of4"; or "bf16". The tokenizer is that of MODEL; its ids
must lie below the vocabulary.
"""
import argparse
import json
import pathlib
import re
import shutil
import struct

import numpy as np

SCHEME = re.compile(r"(int[2348]-(?:a?sym)|lut[234]-(?:row|matrix)|lut4-(?:fp4|nf4))-(?:g(\d+)|row)(-2of4)?"
                    r"(-a(?:[348]|fp4)(?:g\d+)?(?:c0\.\d+)?(?:-h(?:\d+|row))?(?:-tail(\d+))?)?$")
FIXED_BOOKS = {"fp4": 2.93, "nf4": 0.52}  # their deviations
BLOCK_SPARSE = re.compile(r"int([48])-asym-g(8|16|32|64)(-s7)?-bsr(-t16)?(-a8)?$")
FLOAT_ROWS = re.compile(r"f16-g(8|16|32|64)-bsr$")

BLOCKS = re.compile(r"int([2348])-(min|sym)-g(16|32)(-s8)?$")


class Writer:
    """One safetensors file; tensors are given as functions that make their bytes."""

    def __init__(self):
        self.tensors = []

    def add(self, name, dtype, shape, values):
        size = int(np.prod(shape)) * {"U8": 1, "F16": 2, "BF16": 2, "F32": 4, "I32": 4, "I8": 1}[dtype]
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


BERT_SHAPES = {"base": {"hidden": 768, "ffn": 3072, "heads": 12, "layers": 12},
               "large": {"hidden": 1024, "ffn": 4096, "heads": 16, "layers": 24}}


def write_bert(folder, tokenizer, shape, seed):
    """An encoder without a head. Weights are normal of deviation 0.02, as BERT begins; so are biases, and norms
    about 1, that no part of them is idle."""
    random, writer = np.random.default_rng(seed), Writer()
    hidden, vocabulary, positions = shape["hidden"], 30522, 512

    def add(name, *size, mean=0.0):
        values = random.normal(mean, 0.02, size).astype(np.float32)
        writer.add(name, "F32", list(size), lambda _: values.tobytes())

    def add_layer(name, n, k):
        add(name + ".weight", n, k)
        add(name + ".bias", n)

    def add_norm(name):
        add(name + ".weight", hidden, mean=1.0)
        add(name + ".bias", hidden)

    for name, rows in (("word", vocabulary), ("position", positions), ("token_type", 2)):
        add(f"embeddings.{name}_embeddings.weight", rows, hidden)
    add_norm("embeddings.LayerNorm")
    for i in range(shape["layers"]):
        block = f"encoder.layer.{i}."
        for name in ("query", "key", "value"):
            add_layer(block + "attention.self." + name, hidden, hidden)
        add_layer(block + "attention.output.dense", hidden, hidden)
        add_norm(block + "attention.output.LayerNorm")
        add_layer(block + "intermediate.dense", shape["ffn"], hidden)
        add_layer(block + "output.dense", hidden, shape["ffn"])
        add_norm(block + "output.LayerNorm")
    folder.mkdir(parents=True)
    copy_tokenizer(tokenizer, folder)
    config = {"architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": hidden,
              "intermediate_size": shape["ffn"], "num_attention_heads": shape["heads"],
              "num_hidden_layers": shape["layers"], "vocab_size": vocabulary, "max_position_embeddings": positions,
              "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0, "torch_dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    writer.write(folder / "model.safetensors")


def packed(codes, bits):
    """The bytes of one row of codes, lowest bits first; what is left of the last byte is zero."""
    each = np.unpackbits(codes[:, None], axis=1, bitorder="little")[:, :bits]
    return np.packbits(each.reshape(-1), bitorder="little").tobytes()


def copy_tokenizer(tokenizer, folder):
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        if (tokenizer / name).exists():
            shutil.copyfile(tokenizer / name, folder / name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tokenizer", type=pathlib.Path, required=True)
    parser.add_argument("--scheme", default="int4-sym-g128")
    parser.add_argument("--output", default="int8-sym-row")
    parser.add_argument("--kept", type=float, default=0.5, help="share of the groups of each row that block-sparse rows keep")
    for name, value in (("hidden", 4096), ("ffn", 11008), ("heads", 32), ("kv-heads", 32), ("layers", 32), ("vocabulary", 32000)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--bert", choices=BERT_SHAPES)
    parser.add_argument("--seed", type=int, default=0, help="of --bert")
    args = parser.parse_args()
    if args.bert:
        write_bert(args.folder, args.tokenizer, BERT_SHAPES[args.bert], args.seed)
        return
    noise = np.random.default_rng(0).integers(0, 256, 1 << 24, dtype=np.uint8).tobytes()
    normal = np.random.default_rng(1)
    writer, layers = Writer(), {}

    def random_bytes(size):
        return (noise * (size // len(noise) + 1))[:size]

    # Which two of each four inputs are stored, 4 bits each: all six answers as often.
    pairs = np.array([0x4, 0x8, 0xC, 0x9, 0xD, 0xE], np.uint8)
    drawn = pairs[np.random.default_rng(2).integers(0, 6, (1 << 20, 2))]
    fours = (drawn[:, 0] | drawn[:, 1] << 4).astype(np.uint8).tobytes()

    def indices(name, n, k):
        writer.add(name + ".indices", "U8", [n, k // 8], lambda size: (fours * (size // len(fours) + 1))[:size])

    def linear(name, n, k, scheme):
        if scheme == "bf16":
            writer.add(name + ".weight", "BF16", [n, k], small_values)
            return
        if scheme == "f16-2of4":
            layers[name] = scheme
            scale = np.sqrt(2 / k)
            values = normal.normal(0, scale, 1 << 20).astype(np.float16).tobytes()
            writer.add(name + ".values", "F16", [n, k // 2], lambda size: (values * (size // len(values) + 1))[:size])
            indices(name, n, k)
            return
        if match := BLOCK_SPARSE.match(scheme):
            layers[name] = scheme
            block_sparse(name, n, k, int(match[1]), int(match[2]), bool(match[3]), 16 if match[4] else 1)
            return
        if match := FLOAT_ROWS.match(scheme):
            layers[name] = scheme
            float_rows(name, n, k, int(match[1]))
            return
        if (match := BLOCKS.match(scheme)) and (match[2] == "min" or match[4]):
            layers[name] = scheme
            blocks(name, n, k, int(match[1]), match[2] == "min", int(match[3]), bool(match[4]))
            return
        match = SCHEME.match(scheme)
        if not match:
            parser.error(f"scheme {scheme} is not one of these")
        kind, bits, group = match[1][5:], int(match[1][3]), int(match[2]) if match[2] else k
        if k % 8:
            parser.error(f"{name} has {k} inputs, which is no multiple of 8")
        layers[name] = scheme
        tail = int(match[5] or 0)
        learned = kind in ("row", "matrix")
        if match[5] and (match[3] or learned or not 0 < tail < k or tail % 16):
            parser.error(f"{name} [{n}, {k}]: a tail is a multiple of 16 inputs, fewer than all, behind integers or fixed books that are all stored")
        group = min(group, k - tail)
        groups = -(-(k - tail) // group)
        kept = k // 2 if match[3] else k - tail  # weights of a row, without a tail
        if kept * bits % 8:
            parser.error(f"{name} stores {kept} codes of {bits} bits in a row, which are no whole bytes")
        writer.add(name + ".codes", "U8", [n, kept * bits // 8], random_bytes)
        if match[3]:
            indices(name, n, k)
        deviation = 1.0 if learned else FIXED_BOOKS.get(kind, 2**bits * 0.29)  # of what codes stand for
        scale = np.float16(1.0 / (np.sqrt(kept) * deviation))  # outputs of variance 1
        writer.add(name + ".scales", "F16", [n, groups], lambda size: np.full(size // 2, scale, np.float16).tobytes())
        if kind == "asym":
            zeros = packed(np.full(groups, 2 ** (bits - 1), np.uint8), bits)
            writer.add(name + ".zeros", "U8", [n, len(zeros)], lambda size: zeros * (size // len(zeros)))
        if learned:
            books = n if kind == "row" else 1
            writer.add(name + ".book", "F16", [books, 2**bits], lambda size: normal.normal(size=size // 2).astype(np.float16).tobytes())
        if tail:  # layers that read one input have one order; code 0 is -128, which rounding never gives
            order = np.random.default_rng(3).permutation(k).astype(np.int32).tobytes()
            writer.add(name + ".permutation", "I32", [1, k], lambda _: order)
            writer.add(name + ".tail_codes", "U8", [n, tail], lambda size: random_bytes(size).replace(b"\0", b"\1"))
            tail_scale = np.float16(1.0 / (np.sqrt(k) * 256 * 0.29))
            writer.add(name + ".tail_scales", "F16", [n, 1], lambda size: np.full(size // 2, tail_scale, np.float16).tobytes())

    def blocks(name, n, k, bits, minima, group, multiples):  # docs/formats.md
        scale = 1.0 / (np.sqrt(k) * 2**bits * 0.29)
        parts = [("scales", "supers", scale)]
        if minima:  # the middle code stands for about 0
            parts.append(("minima", "min_supers", -scale * 2**(bits - 1)))
        writer.add(name + ".codes", "U8", [n, k * bits // 8], random_bytes)
        for values, supers, value in parts:
            halves = lambda size, value=value: np.full(size // 2, value, np.float16).tobytes()
            if not multiples:
                writer.add(f"{name}.{values}", "F16", [n, k // group], halves)
                continue
            multiple = 32
            writer.add(f"{name}.{values}", "I8", [n, k // group], lambda size: bytes([multiple]) * size)
            writer.add(f"{name}.{supers}", "F16", [n, -(-k // 256)],
                       lambda size, value=value: np.full(size // 2, value / multiple, np.float16).tobytes())

    def kept_groups(name, n, k, group, tile):  # adds their places; how many a row keeps
        if n % tile or k % group:
            parser.error(f"{name} [{n}, {k}] is not made of tiles of {tile} rows and groups of {group} inputs")
        groups, tiles = k // group, n // tile
        kept = max(1, round(args.kept * groups))
        rows = np.random.default_rng(1).random((min(tiles, 1024), groups)).argsort(axis=1)[:, :kept]
        rows = np.sort(rows, axis=1).astype(np.uint8 if groups <= 256 else np.uint16)
        every = np.tile(rows, (-(-tiles // len(rows)), 1))[:tiles]
        writer.add(name + ".row_index", "I32", [1, tiles + 1], lambda _: np.arange(0, tiles * kept + 1, kept, dtype=np.int32).tobytes())
        writer.add(name + ".groups", "U8", [tiles * kept, rows.itemsize], lambda _: every.tobytes())
        return kept

    def float_rows(name, n, k, group):  # docs/formats.md
        kept = kept_groups(name, n, k, group, 1)
        values = normal.normal(0, 1 / np.sqrt(kept * group), 1 << 20).astype(np.float16).tobytes()
        writer.add(name + ".values", "F16", [n * kept, group], lambda size: (values * (size // len(values) + 1))[:size])

    def block_sparse(name, n, k, bits, group, has_units, tile):  # docs/formats.md
        kept = kept_groups(name, n, k, group, tile)
        scale = np.float16(1.0 / (np.sqrt(k * args.kept) * 2**bits * 0.29))
        writer.add(name + ".codes", "U8", [n * kept, group * bits // 8], random_bytes)
        if has_units:
            eight = sum(32 << 7 * i for i in range(8)).to_bytes(7, "little")  # scales of 32 units
            unit = bytes([int(np.float16(scale / 32).view(np.uint16)) >> 7])
            writer.add(name + ".scales", "U8", [1, n * kept * 7 // 8], lambda size: eight * (size // 7))
            writer.add(name + ".units", "U8", [n, 1], lambda size: unit * size)
        else:
            writer.add(name + ".scales", "F16", [1, n * kept], lambda size: np.full(size // 2, scale, np.float16).tobytes())
        # The middle code, so that outputs stay about 0.
        writer.add(name + ".zeros", "U8", [1, -(-n * kept * bits // 8)],
                   lambda size: bytes([0x88 if bits == 4 else 0x80]) * (size - 1) + bytes([0x08 if bits * n * kept % 8 else 0x88 if bits == 4 else 0x80]))

    def ones(name, size):
        writer.add(name, "BF16", [size], lambda count: np.full(count // 2, 0x3F80, np.uint16).tobytes())

    small = (np.frombuffer(noise, np.uint16) & 0x807F | 0x3C00).astype(np.uint16).tobytes()

    def small_values(size):  # bfloat16 of magnitude 2^-7 to 2^-6
        return (small * (size // len(small) + 1))[:size]

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
    copy_tokenizer(args.tokenizer, args.folder)
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
