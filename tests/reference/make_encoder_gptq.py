#!/usr/bin/env python3
"""Prints encoder_gptq.json: what the layers of the encoders bert and bart of tests/families read, and what GPTQ loses there.

    make_encoder_gptq.py > encoder_gptq.json        (needs NumPy and safetensors)

Forward passes and methods written in NumPy and float64 from the papers, one text at a time, with no code shared with
the program. Texts: text t of an encoder has the ids 4 + (7 i + 13 t) mod 60 and the types (i + t) mod 2; the decoder
of bart reads 2 and then 4 + (11 i + 5 t) mod 60. For each layer of the blocks:

    trace     of H, the sum over all tokens of x x^T
    form      v^T H v, v_i = 1 / (1 + i)
    rtn       the loss tr(E H E^T) / tr(W H W^T) of rounding to 4 bits with a zero point, a scale for each row
    gptq      the same of GPTQ, inputs in descending order of the diagonal, damping 0.01
"""
import json
import math
import pathlib

import numpy as np
from safetensors.numpy import load_file

FAMILIES = pathlib.Path(__file__).resolve().parent.parent / "families"
TEXTS, DAMP, LEVELS = 11, 0.01, 15


def lengths(text):
    return 9 + 3 * text, 4 + 2 * text  # of the encoder, of the decoder


class Model:
    def __init__(self, family):
        self.w = {k: v.astype(np.float64) for k, v in load_file(FAMILIES / family / "model.safetensors").items()}
        self.config = json.loads((FAMILIES / family / "config.json").read_text())
        self.seen = {}  # sum of x x^T by layer

    def linear(self, name, x):
        self.seen[name] = self.seen.get(name, 0) + x.T @ x
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def norm(self, name, x, eps):
        centred = x - x.mean(axis=1, keepdims=True)
        return centred / np.sqrt((centred ** 2).mean(axis=1, keepdims=True) + eps) * self.w[name + ".weight"] + \
            self.w[name + ".bias"]

    def attend(self, names, x, memory, heads, causal):
        """softmax(q k^T / sqrt(d)) v of x over the rows of `memory`."""
        q, k, v = (self.linear(name, y) for name, y in zip(names, (x, memory, memory)))
        size = q.shape[1] // heads
        out = np.empty_like(q)
        for h in range(heads):
            part = slice(h * size, (h + 1) * size)
            scores = q[:, part] @ k[:, part].T / math.sqrt(size)
            if causal:
                scores[np.triu_indices(len(x), 1)] = -np.inf
            p = np.exp(scores - scores.max(axis=1, keepdims=True))
            out[:, part] = p / p.sum(axis=1, keepdims=True) @ v[:, part]
        return self.linear(names[3], out)


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def run_bert(model, text):
    n, (w, eps) = lengths(text)[0], (model.w, model.config["layer_norm_eps"])
    ids = [4 + (7 * i + 13 * text) % 60 for i in range(n)]
    types = [(i + text) % 2 for i in range(n)]
    root = "bert." if "bert.embeddings.word_embeddings.weight" in w else ""
    tables = root + "embeddings."
    x = w[tables + "word_embeddings.weight"][ids] + w[tables + "position_embeddings.weight"][:n] + \
        w[tables + "token_type_embeddings.weight"][types]
    x = model.norm(tables + "LayerNorm", x, eps)
    for i in range(model.config["num_hidden_layers"]):
        block = f"{root}encoder.layer.{i}."
        names = [block + "attention." + name for name in ("self.query", "self.key", "self.value", "output.dense")]
        x = model.norm(block + "attention.output.LayerNorm",
                       x + model.attend(names, x, x, model.config["num_attention_heads"], False), eps)
        middle = gelu(model.linear(block + "intermediate.dense", x))
        x = model.norm(block + "output.LayerNorm", x + model.linear(block + "output.dense", middle), eps)


def run_bart_stack(model, stack, ids, states):
    w = model.w
    root = f"model.{stack}."
    x = w["model.shared.weight"][ids] + w[root + "embed_positions.weight"][2:2 + len(ids)]
    x = model.norm(root + "layernorm_embedding", x, 1e-5)
    heads = model.config[f"{stack}_attention_heads"]
    for i in range(model.config[f"{stack}_layers"]):
        block = f"{root}layers.{i}."

        def attention(name, memory, causal):
            names = [f"{block}{name}.{part}" for part in ("q_proj", "k_proj", "v_proj", "out_proj")]
            return model.norm(f"{block}{name}_layer_norm", x + model.attend(names, x, memory, heads, causal), 1e-5)

        x = attention("self_attn", x, states is not None)
        if states is not None:
            x = attention("encoder_attn", states, False)
        middle = gelu(model.linear(block + "fc1", x))
        x = model.norm(block + "final_layer_norm", x + model.linear(block + "fc2", middle), 1e-5)
    return x


def run_bart(model, text):
    read, written = lengths(text)
    states = run_bart_stack(model, "encoder", [4 + (7 * i + 13 * text) % 60 for i in range(read)], None)
    run_bart_stack(model, "decoder", [2] + [4 + (11 * i + 5 * text) % 60 for i in range(written - 1)], states)


def make_rounding(w):
    low, high = np.minimum(w.min(axis=1), 0), np.maximum(w.max(axis=1), 0)
    scale = ((high - low) / LEVELS).astype(np.float16).astype(np.float64)
    zero = np.clip(np.rint(-low / scale), 0, LEVELS)
    return lambda column: (np.clip(np.rint(column / scale + zero), 0, LEVELS) - zero) * scale


def gptq(w, h, nearest):
    order = np.argsort(-np.diag(h), kind="stable")
    damped = h + DAMP * np.mean(np.diag(h)) * np.eye(len(h))
    upper = np.linalg.cholesky(np.linalg.inv(damped[np.ix_(order, order)])).T
    rest, result = w[:, order].copy(), np.empty_like(w)
    for i, j in enumerate(order):
        result[:, j] = nearest(rest[:, i])
        rest[:, i:] -= np.outer((rest[:, i] - result[:, j]) / upper[i, i], upper[i, i:])
    return result


def loss(w, rounded, h):
    return float(np.trace((w - rounded) @ h @ (w - rounded).T) / np.trace(w @ h @ w.T))


def main():
    results = {}
    for family, run in (("bert", run_bert), ("bart", run_bart)):
        model = Model(family)
        for text in range(TEXTS):
            run(model, text)
        results[family] = {}
        for name, h in sorted(model.seen.items()):
            w = model.w[name + ".weight"]
            nearest = make_rounding(w)
            v = 1 / (1 + np.arange(len(h)))
            rtn = np.stack([nearest(column) for column in w.T], axis=1)
            results[family][name] = {"trace": float(np.trace(h)), "form": float(v @ h @ v), "rtn": loss(w, rtn, h),
                                     "gptq": loss(w, gptq(w, h, nearest), h)}
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
