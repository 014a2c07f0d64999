#!/usr/bin/env python3
"""Writes tiny random OPT models with norms behind their layers, and what NumPy computes with them in float64: one
as wide as its embedding, and one whose embedding is narrower (as that of OPT-350M).

    python3 make_post_norm.py                      (needs numpy)
    python3 make_post_norm.py --check FOLDER       compares with the golden.json of a trained model

Written from the paper (arXiv 2205.01068) and from what Hugging Face documents of OPTConfig, not from any code of
this project. Files are those of make_goldens.py.
"""
import json
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
HIDDEN, FFN, LAYERS, HEADS, VOCABULARY, POSITIONS, TOKENS = 32, 48, 3, 4, 64, 128, 40
OFFSET = 2  # of positions
WIDTHS = {"opt-post-norm": HIDDEN, "opt-projected": 20}  # of the embedding
CONFIG = {
    "architectures": ["OPTForCausalLM"], "model_type": "opt", "activation_function": "relu", "bos_token_id": 1,
    "eos_token_id": 2, "do_layer_norm_before": False, "_remove_final_layer_norm": False, "enable_bias": True,
    "layer_norm_elementwise_affine": True, "hidden_size": HIDDEN, "ffn_dim": FFN, "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS, "vocab_size": VOCABULARY, "max_position_embeddings": POSITIONS,
    "word_embed_proj_dim": HIDDEN, "tie_word_embeddings": True, "torch_dtype": "float32",
}


def linear_shapes(layer):
    root = f"model.decoder.layers.{layer}."
    shapes = {f"{root}self_attn.{name}": (HIDDEN, HIDDEN) for name in ("q_proj", "k_proj", "v_proj", "out_proj")}
    return shapes | {root + "fc1": (FFN, HIDDEN), root + "fc2": (HIDDEN, FFN)}


def random_weights(width):
    random = np.random.default_rng(11)
    weights = {
        "model.decoder.embed_tokens.weight": random.standard_normal((VOCABULARY, width)),
        "model.decoder.embed_positions.weight": random.standard_normal((POSITIONS + OFFSET, HIDDEN)),
    }
    for layer in range(LAYERS):
        for name, (n, k) in linear_shapes(layer).items():
            weights[name + ".weight"] = random.standard_normal((n, k)) * 1.5 / k ** 0.5
            weights[name + ".bias"] = 0.2 * random.standard_normal(n)
        for norm in ("self_attn_layer_norm", "final_layer_norm"):
            weights[f"model.decoder.layers.{layer}.{norm}.weight"] = 1 + 0.2 * random.standard_normal(HIDDEN)
            weights[f"model.decoder.layers.{layer}.{norm}.bias"] = 0.2 * random.standard_normal(HIDDEN)
    if width != HIDDEN:
        weights["model.decoder.project_in.weight"] = random.standard_normal((HIDDEN, width)) / width ** 0.5
        weights["model.decoder.project_out.weight"] = random.standard_normal((width, HIDDEN)) / HIDDEN ** 0.5
    return {name: value.astype(np.float32) for name, value in weights.items()}


def layer_norm(x, weights, name):
    centred = x - x.mean(-1, keepdims=True)
    unit = centred / np.sqrt((centred ** 2).mean(-1, keepdims=True) + 1e-5)
    return unit * weights[name + ".weight"] + weights[name + ".bias"]


def linear(x, weights, name):
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def attention(x, weights, root, heads):
    tokens, hidden = x.shape
    q, k, v = (linear(x, weights, f"{root}self_attn.{name}_proj").reshape(tokens, heads, -1) for name in "qkv")
    scores = np.einsum("ihd,jhd->hij", q, k) / (hidden / heads) ** 0.5
    scores[:, np.triu_indices(tokens, 1)[0], np.triu_indices(tokens, 1)[1]] = -np.inf
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    mixed = np.einsum("hij,jhd->ihd", shares, v).reshape(tokens, hidden)
    return linear(mixed, weights, root + "self_attn.out_proj")


def logits(ids, weights, config):
    """[tokens, vocabulary]; norms stand behind attention and MLP, and there is none behind the last block."""
    embedding = weights["model.decoder.embed_tokens.weight"]
    x = embedding[ids]
    if "model.decoder.project_in.weight" in weights:
        x = x @ weights["model.decoder.project_in.weight"].T
    x = x + weights["model.decoder.embed_positions.weight"][np.arange(len(ids)) + OFFSET]
    for layer in range(config["num_hidden_layers"]):
        root = f"model.decoder.layers.{layer}."
        x = layer_norm(x + attention(x, weights, root, config["num_attention_heads"]), weights,
                       root + "self_attn_layer_norm")
        middle = np.maximum(linear(x, weights, root + "fc1"), 0)
        x = layer_norm(x + linear(middle, weights, root + "fc2"), weights, root + "final_layer_norm")
    if "model.decoder.project_out.weight" in weights:
        x = x @ weights["model.decoder.project_out.weight"].T
    return x @ embedding.T


def read_safetensors(path):
    """F32 and BF16."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    weights = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(data[begin:end], "<u2").astype("<u4") << 16).view("<f4")
        else:
            values = np.frombuffer(data[begin:end], "<f4")
        weights[name] = values.reshape(entry["shape"]).astype(np.float64)
    return weights


def write_safetensors(path, weights):
    header, body = {}, b""
    for name, value in sorted(weights.items()):
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(body), len(body) + value.nbytes]}
        body += value.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def check(folder):
    prompt = json.loads((folder / "golden.json").read_text())["prompt"]
    config = json.loads((folder / "config.json").read_text())
    last = logits(np.array(prompt["ids"]), read_safetensors(folder / "model.safetensors"), config)[-1]
    expected = np.array(prompt["logits_last_first16"])
    print("largest difference", np.abs(last[:len(expected)] - expected).max(), "of logits up to", np.abs(expected).max())


def write(folder, width):
    folder.mkdir(exist_ok=True)
    weights = random_weights(width)
    ids = np.random.default_rng(13).integers(0, VOCABULARY, TOKENS)
    result = logits(ids, {name: value.astype(np.float64) for name, value in weights.items()}, CONFIG)
    (folder / "config.json").write_text(json.dumps(CONFIG | {"word_embed_proj_dim": width}, indent=2) + "\n")
    (folder / "tokenizer.json").write_text((HERE / "opt" / "tokenizer.json").read_text())
    write_safetensors(folder / "model.safetensors", weights)
    golden = {"ids": ids.tolist(), "logits": [[float(f"{x:.7g}") for x in row] for row in result.tolist()]}
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")


def main():
    if sys.argv[1:2] == ["--check"]:
        return check(pathlib.Path(sys.argv[2]))
    for name, width in WIDTHS.items():
        write(HERE / name, width)


if __name__ == "__main__":
    main()
