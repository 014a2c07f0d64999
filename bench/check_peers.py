#!/usr/bin/env python3
"""Perplexity of a GGUF file of a Llama in transformers: what `nibble eval --activations float` must give too.

    bench/check_peers.py FILE --original FOLDER --text FILE [--max-tokens 40960]

The weights of the blocks' layers are those of gguf.dequantize, which replace those of the original in float32. Windows of 1,024 tokens, as `nibble eval --seq-len 1024` takes them.
"""
import argparse
import math
import os
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
import transformers

WINDOW = 1024
NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def halves(weight, heads):
    """Rows of query and key in transformers' order: llama.cpp has the two of each rotated pair side by side."""
    return weight.reshape(heads, -1, 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


def of_gguf(path, config):
    import gguf
    for tensor in gguf.GGUFReader(path).tensors:
        parts = tensor.name.split(".")
        if parts[0] == "blk" and parts[2] in NAMES:
            weight = torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).copy())
            heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}.get(parts[2])
            yield f"model.layers.{parts[1]}.{NAMES[parts[2]]}", halves(weight, heads) if heads else weight


@torch.no_grad()
def perplexity(model, ids):
    windows = [ids[begin:begin + WINDOW] for begin in range(0, len(ids) - WINDOW + 1, WINDOW)]
    total = 0.0
    for window in windows:
        tokens = torch.tensor([window])
        logits = model(tokens, use_cache=False).logits[0, :-1]
        total += torch.nn.functional.cross_entropy(logits, tokens[0, 1:], reduction="none").double().sum().item()
    return math.exp(total / (len(windows) * (WINDOW - 1)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--original", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--max-tokens", type=int, default=40960)
    options = parser.parse_args()
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(options.original / "tokenizer.json"))
    ids = tokenizer.encode(options.text.read_text(encoding="utf-8"), add_special_tokens=False).ids[:options.max_tokens]
    model = transformers.AutoModelForCausalLM.from_pretrained(options.original, dtype=torch.float32)
    replaced = 0
    for name, weight in of_gguf(options.file, model.config):
        module = model.get_submodule(name)
        assert module.weight.shape == weight.shape, name
        module.weight.data, replaced = weight, replaced + 1
    print(f"{options.file.name}: {perplexity(model, ids):.5f} ({replaced} layers)")


if __name__ == "__main__":
    main()
