#!/usr/bin/env python3
"""Writes src/eval/goldens/analysis.json: loss by position, ranges of activations and signal-to-noise of tiny models of
tests/families and of the same models with the weights of their blocks rounded to multiples of 1/8, with NumPy in float64.

    python3 tests/reference/make_analysis_goldens.py          (needs numpy)

Written from the papers of OPT (arXiv 2205.01068) and BART (arXiv 1910.13461) and from what Hugging Face documents of their
configurations. Before anything is written, logits are compared with what transformers computed (golden.json of each model).
"""
import json
import math
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FAMILIES = ROOT / "tests" / "families"
sys.path.insert(0, str(FAMILIES))
from make_post_norm import layer_norm, linear, read_safetensors  # noqa: E402

STEP = 1 / 8
OFFSET = 2  # of positions, in both families
ACTIVATIONS = {"relu": lambda x: np.maximum(x, 0), "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2}


class Model:
    def __init__(self, name):
        folder = FAMILIES / name
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = read_safetensors(folder / "model.safetensors")
        self.golden = json.loads((folder / "golden.json").read_text())
        self.is_bart = self.config["model_type"] == "bart"
        self.pre = self.config.get("do_layer_norm_before", False)
        self.activation = ACTIVATIONS[self.config["activation_function"]]

    def rounded(self):
        """The same model with rounded matrices in its blocks."""
        other = Model.__new__(Model)
        other.__dict__ = dict(self.__dict__)
        other.weights = {name: np.rint(value / STEP) * STEP if ".layers." in name and value.ndim == 2 else value
                         for name, value in self.weights.items()}
        return other

    def heads(self, stack):
        return self.config[f"{stack}_attention_heads"] if self.is_bart else self.config["num_attention_heads"]

    def layers(self, stack):
        return self.config[f"{stack}_layers"] if self.is_bart else self.config["num_hidden_layers"]

    def embed(self, stack, ids):
        root = f"model.{stack}."
        table = self.weights["model.shared.weight" if self.is_bart else root + "embed_tokens.weight"]
        x = table[ids] + self.weights[root + "embed_positions.weight"][np.arange(len(ids)) + OFFSET]
        return layer_norm(x, self.weights, root + "layernorm_embedding") if self.is_bart else x

    def norm(self, x, name):
        return layer_norm(x, self.weights, name)

    def attend(self, q, k, v, heads, causal):
        width = q.shape[1] // heads
        q, k, v = (value.reshape(len(value), heads, width) for value in (q, k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) / width ** 0.5
        if causal:
            scores = np.where(np.arange(len(q))[:, None] >= np.arange(len(k)), scores, -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        return np.einsum("hij,jhd->ihd", shares, v).reshape(len(q), heads * width)

    def block(self, stack, number, x, states=None):
        """x behind the block; inputs by place; outputs by layer."""
        root = f"model.{stack}.layers.{number}."
        heads, inputs, outputs = self.heads(stack), {}, {}

        def apply(layer, value):
            outputs[root + layer] = linear(value, self.weights, root + layer)
            return outputs[root + layer]

        def sublayer(x, norm, inner):
            if self.pre:
                return x + inner(self.norm(x, root + norm))
            return self.norm(x + inner(x), root + norm)

        def self_attention(value):
            inputs["qkv input"] = value
            q, k, v = (apply(f"self_attn.{name}_proj", value) for name in "qkv")
            inputs["attention out input"] = self.attend(q, k, v, heads, stack == "decoder")
            return apply("self_attn.out_proj", inputs["attention out input"])

        def cross_attention(value):
            inputs["cross kv input"], inputs["cross q input"] = states, value
            k, v = (apply(f"encoder_attn.{name}_proj", states) for name in "kv")
            inputs["cross out input"] = self.attend(apply("encoder_attn.q_proj", value), k, v, heads, False)
            return apply("encoder_attn.out_proj", inputs["cross out input"])

        def mlp(value):
            inputs["mlp in input"] = value
            inputs["mlp out input"] = self.activation(apply("fc1", value))
            return apply("fc2", inputs["mlp out input"])

        x = sublayer(x, "self_attn_layer_norm", self_attention)
        if states is not None:
            x = sublayer(x, "encoder_attn_layer_norm", cross_attention)
        x = sublayer(x, "final_layer_norm", mlp)
        inputs["residual stream"] = outputs["residual stream"] = x
        return x, inputs, outputs

    def logits(self, x):
        if self.pre:
            x = self.norm(x, "model.decoder.final_layer_norm")
        if self.is_bart:
            return x @ self.weights["model.shared.weight"].T + self.weights["final_logits_bias"]
        return x @ self.weights["model.decoder.embed_tokens.weight"].T


def stacks(model):
    return ["encoder", "decoder"] if model.is_bart else ["decoder"]


def run(model, other, text):
    """Of both models: states by stack, inputs of blocks; of both and alone: outputs of blocks."""
    seen = {"inputs": {}, "embedding": {}, "outputs": {}}
    states = {"model": None, "rounded": None}
    for stack in stacks(model):
        ids = text["source"] if stack == "encoder" else text["target"]
        ids = ids[:-1] if model.is_bart and stack == "decoder" else ids
        x = {"model": model.embed(stack, ids), "rounded": other.embed(stack, ids)}
        seen["embedding"][stack] = dict(x)
        for number in range(model.layers(stack)):
            before = x["model"]
            for name, side in (("model", model), ("rounded", other)):
                x[name], inputs, outputs = side.block(stack, number, x[name], states[name])
                seen["inputs"][stack, number, name] = inputs
                seen["outputs"][stack, number, name] = outputs
            seen["outputs"][stack, number, "alone"] = other.block(stack, number, before, states["model"])[2]
        states = dict(x)
    seen["losses"] = {}
    for name, side in (("model", model), ("rounded", other)):
        logits = side.logits(states[name])[: len(text["target"]) - 1]
        peak = logits.max(-1)
        total = peak + np.log(np.exp(logits - peak[:, None]).sum(-1))
        seen["losses"][name] = total - logits[np.arange(len(logits)), text["target"][1:]]
    return seen


def check(model):
    """Logits are those of transformers."""
    texts = model.golden["texts"] if model.is_bart else [{"written": model.golden["ids"], "numbers": model.golden["logits"]}]
    for text in texts:
        x = None
        for stack in stacks(model):
            states, x = x, model.embed(stack, np.array(text["ids" if stack == "encoder" else "written"]))
            for number in range(model.layers(stack)):
                x = model.block(stack, number, x, states)[0]
        difference = np.abs(model.logits(x) - np.array(text["numbers"])).max()
        assert difference < 2e-5, difference


def by_position(rows):
    """Mean of ragged rows at each position."""
    return [float(np.mean([row[i] for row in rows if i < len(row)])) for i in range(max(map(len, rows)))]


def curves(matrices):
    return {"minimum": by_position([x.min(-1) for x in matrices]), "maximum": by_position([x.max(-1) for x in matrices]),
            "magnitude": by_position([np.abs(x).max(-1) for x in matrices])}


def decibels(references, values):
    signal = sum((x ** 2).sum() for x in references)
    noise = sum(((x - y) ** 2).sum() for x, y in zip(references, values))
    return float(10 * np.log10(signal / noise))


def analysis(model, other, texts):
    runs = [run(model, other, text) for text in texts]
    result = {"texts": texts, "loss": {name: by_position([seen["losses"][name] for seen in runs])
                                       for name in ("model", "rounded")}, "stacks": []}
    for stack in stacks(model):
        entry = {"name": stack, "embedding": curves([seen["embedding"][stack]["model"] for seen in runs]), "blocks": []}
        for number in range(model.layers(stack)):
            inputs = {name: [seen["inputs"][stack, number, name] for seen in runs] for name in ("model", "rounded")}
            outputs = {name: [seen["outputs"][stack, number, name] for seen in runs] for name in ("model", "rounded", "alone")}
            entry["blocks"].append({
                "ranges": [{"place": place} | {name: curves([x[place] for x in inputs[name]]) for name in inputs}
                           for place in inputs["model"][0]],
                "noise": [{"place": layer} | {key: decibels([x[layer] for x in outputs["model"]], [x[layer] for x in outputs[name]])
                                              for key, name in (("chained", "rounded"), ("alone", "alone"))}
                          for layer in outputs["model"][0]]})
        result["stacks"].append(entry)
    return result


def rounded_numbers(value):
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {key: rounded_numbers(entry) for key, entry in value.items()}
    return [rounded_numbers(entry) for entry in value] if isinstance(value, list) else value


def main():
    random = np.random.default_rng(5)
    golden = {"step": STEP}
    for name in ("opt", "opt-post-norm", "bart"):
        model = Model(name)
        check(model)
        if model.is_bart:
            texts = [{"source": random.integers(3, 64, n).tolist(), "target": [2] + random.integers(3, 64, m).tolist() + [2]}
                     for n, m in ((13, 9), (7, 5))]
        else:
            texts = [{"source": [], "target": random.integers(0, 64, 11).tolist()} for _ in range(2)]
        golden[name] = analysis(model, model.rounded(), texts)
    (ROOT / "src" / "eval" / "goldens" / "analysis.json").write_text(json.dumps(rounded_numbers(golden)) + "\n")


if __name__ == "__main__":
    main()
