#!/usr/bin/env python3
"""Prints block_influence.json: the influence of the demo model's blocks on two made-up texts, by NumPy.

    make_block_influence.py > block_influence.json

ShortGPT (arXiv 2403.03853), equation 1: 1 - the mean over tokens of cos(state before the block, state behind it). The
forward pass is written from the papers in float64: RMSNorm (arXiv 1910.07467), RoPE (arXiv 2104.09864), grouped
queries (arXiv 2305.13245), SwiGLU (arXiv 2002.05202).
"""
import json
import pathlib

import numpy as np

MODEL = pathlib.Path(__file__).resolve().parent.parent.parent / "models/demo"
TOKENS = [[(37 * i * i + 11) % 8192 for i in range(96)], [(101 * i + 5) % 8192 for i in range(64)]]


def read_tensors():
    data = (MODEL / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            assert entry["dtype"] == "BF16"
            begin, end = entry["data_offsets"]
            raw = np.frombuffer(data[start + begin:start + end], np.uint16).astype(np.uint32) << 16
            tensors[name] = raw.view(np.float32).astype(np.float64).reshape(entry["shape"])
    return tensors


def norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def rotate(x, theta):
    """[tokens, heads, size]: the pairs (i, i + size / 2) turn by position * theta^(-2 i / size)."""
    half = x.shape[-1] // 2
    angles = np.outer(np.arange(x.shape[0]), theta ** (-np.arange(half) / half))[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], -1)


def block(x, w, config):
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    size, tokens, eps = config["hidden_size"] // heads, x.shape[0], config["rms_norm_eps"]
    h = norm(x, w["input_layernorm"], eps)
    q, k, v = ((h @ w[f"self_attn.{name}_proj"].T).reshape(tokens, -1, size) for name in "qkv")
    q, k = rotate(q, config["rope_theta"]), rotate(k, config["rope_theta"])
    k, v = (np.repeat(part, heads // kv_heads, axis=1) for part in (k, v))
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(size)
    scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    x = x + np.einsum("hqk,khd->qhd", shares, v).reshape(tokens, -1) @ w["self_attn.o_proj"].T
    h = norm(x, w["post_attention_layernorm"], eps)
    gate = h @ w["mlp.gate_proj"].T
    return x + (gate / (1 + np.exp(-gate)) * (h @ w["mlp.up_proj"].T)) @ w["mlp.down_proj"].T


def main():
    config = json.loads((MODEL / "config.json").read_text())
    tensors = read_tensors()
    states = [tensors["model.embed_tokens.weight"][tokens] for tokens in TOKENS]
    influence = []
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        weights = {name[len(prefix):].removesuffix(".weight"): value for name, value in tensors.items()
                   if name.startswith(prefix)}
        cosines, behind = [], []
        for x in states:
            y = block(x, weights, config)
            cosines += list((x * y).sum(-1) / np.linalg.norm(x, axis=-1) / np.linalg.norm(y, axis=-1))
            behind.append(y)
        influence.append(1 - np.mean(cosines))
        states = behind
    print(json.dumps({"tokens": TOKENS, "influence": influence}))


if __name__ == "__main__":
    main()
