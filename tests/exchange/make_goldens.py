#!/usr/bin/env python3
"""Writes layers and tiny models as other tools compress them, and what those tools make of them.

    python3 make_goldens.py [NAME ...]

Needs torch 2.15, transformers 5.24, gptqmodel 7.7, compressed-tensors 0.20, bitsandbytes 0.50, mlx 0.32 (the versions
that wrote what lies here), on a CPU; of the tools only those of the cases that are named. Their packers write every tensor, and their own dequantizers give the weights; scales
are widened to float32 first, so that nothing is rounded again.

layers.json   for each name the tensors of one layer, bytes as base64, and its weights [n, k], float32
NAME/         a Llama of two layers: config.json, model.safetensors, tokenizer.json; golden.json has token ids and the
              logits of the last positions, by transformers with the dequantized weights in float32
"""
import base64
import json
import os
import pathlib
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers as t
from safetensors.torch import save_file

import foreign

HERE = pathlib.Path(__file__).resolve().parent
VOCABULARY = 64
TOKENS = 24
POSITIONS = 4
KINDS = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int32: "I32", torch.int64: "I64",
         torch.int8: "I8", torch.uint32: "U32", torch.uint8: "U8", torch.float8_e4m3fn: "F8_E4M3"}


def raw(tensor):
    flat = tensor.contiguous().reshape(-1)
    return base64.b64encode(flat.view(torch.uint8).numpy().tobytes()).decode()


def layer_golden(case):
    torch.manual_seed(7)
    weight = torch.randn(case.n, case.k) * 0.05
    tensors, dequantized = case.compress(weight, "layer")
    return {"config": case.config, "n": case.n, "k": case.k, "scheme": case.scheme, "tolerance": case.tolerance,
            "rounds_scales": case.rounds_scales,
            "parts": {name: {"dtype": KINDS[value.dtype], "shape": list(value.shape), "data": raw(value)}
                      for name, value in tensors.items()},
            "weights": raw(dequantized.float())}


def make_model():
    torch.manual_seed(3)
    model = t.LlamaForCausalLM(t.LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=VOCABULARY, max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2,
        pad_token_id=None, tie_word_embeddings=False, attn_implementation="eager")).float().eval()
    for value in model.parameters():
        noise = torch.randn_like(value)
        value.data = value.data + 0.2 * noise if value.dim() == 1 else noise * (1.5 / value.shape[-1] ** 0.5)
        value.data = value.data.half().float()
    return model


def tokenizer():
    vocabulary = {f"t{i}": i for i in range(VOCABULARY)}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "t0"}}


def logits_of(model, ids):
    with torch.no_grad():
        return model(ids).logits[0][-POSITIONS:]


def rounded_inputs(_, inputs):
    """To INT8 with a scale for each token, as Nibble rounds them: compressed-tensors divides by 127.5."""
    x = inputs[0]
    scale = x.abs().amax(-1, keepdim=True) / 127
    return (torch.round(x / scale) * scale,)


def write_model(name, case):
    model = make_model()
    tensors = {}
    rounded = {}
    for key, value in model.state_dict().items():
        if not key.endswith("proj.weight") and not (case.whole_model and value.dim() == 2):
            tensors[key] = value.half()
            continue
        prefix = key.removesuffix(".weight")
        parts, dequantized = case.compress(value.data.clone(), prefix)
        tensors.update({f"{prefix}.{part}": tensor.contiguous() for part, tensor in parts.items()})
        value.data.copy_(dequantized)
        if case.rounded:
            rounded[key] = case.rounded(parts, dequantized.shape)
            if key == "model.embed_tokens.weight":
                rounded[key] = rounded[key].half().float()  # a plain table in Nibble
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = model.config.to_dict()
    config["architectures"] = ["LlamaForCausalLM"]
    config["quantization_config"] = case.config
    if case.config["quant_method"] == "mlx":
        config["quantization"] = config["quantization_config"] = {
            key: value for key, value in case.config.items() if key != "quant_method"}
    (folder / "config.json").write_text(json.dumps(config, indent=1, default=str) + "\n")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()) + "\n")
    ids = torch.randint(0, VOCABULARY, (1, TOKENS))
    rounds_activations = "-a8" in case.scheme
    for part, layer in model.named_modules():
        if rounds_activations and part.endswith("proj"):
            layer.register_forward_pre_hook(rounded_inputs)
    logits = logits_of(model, ids)
    golden = {"tolerance": 2e-2 if rounds_activations else 1e-4, "ids": ids[0].tolist()}
    if rounded:
        before = logits
        model.load_state_dict(rounded, strict=False)
        logits = logits_of(model, ids)
        golden["change_by_float16_scales"] = float(f"{(logits - before).abs().max():.3g}")
    golden["logits"] = [[float(f"{x:.7g}") for x in row] for row in logits.tolist()]
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")
    print({key: value for key, value in golden.items() if key.startswith("change")}, logits.abs().max().item())
    print(name, sum(file.stat().st_size for file in folder.iterdir()), "bytes")


def main():
    wanted = sys.argv[1:]
    layers = HERE / "layers.json"
    known = json.loads(layers.read_text()) if layers.exists() else {}
    for name, make in foreign.LAYERS.items():
        if not wanted or name in wanted:
            known[name] = layer_golden(make())
    layers.write_text(json.dumps(known, indent=0) + "\n")
    for name, make in foreign.MODELS.items():
        if not wanted or name in wanted:
            write_model(name, make())


if __name__ == "__main__":
    main()
