#!/usr/bin/env python3
"""Quantizes a model by the Python libraries of others, on a CPU, for bench/measure_peers.py.

    bench/quantize_with_peers.py TOOL MODEL OUT [--bits N] [--group N] [--double]

TOOL is bitsandbytes (NF4), hqq or mlx. Embedding and output layer stay float. Everything that is not an option is the tool's own default.

HQQ's folder has the decoded weights, which any program reads; OUT.weights.safetensors has what HQQ stores.
"""
import argparse
import os
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


def bitsandbytes(options):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
    config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=options.double,
                                bnb_4bit_compute_dtype=torch.bfloat16)
    model = AutoModelForCausalLM.from_pretrained(options.model, quantization_config=config, device_map="cpu",
                                                 dtype=torch.bfloat16)
    model.save_pretrained(options.out)
    AutoTokenizer.from_pretrained(options.model).save_pretrained(options.out)


def hqq(options):
    import torch
    from hqq.core.quantize import BaseQuantizeConfig, Quantizer
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)
    config = BaseQuantizeConfig(nbits=options.bits, group_size=options.group, axis=1)["weight_quant_params"]
    kept = {}
    for name, module in model.model.layers.named_modules():
        if isinstance(module, torch.nn.Linear):
            codes, meta = Quantizer.quantize(module.weight.data, **config, device="cpu", compute_dtype=torch.float32)
            for part in ("scale", "zero"):
                meta[part] = meta[part].to(torch.float16)
                kept[f"model.layers.{name}.{part}"] = meta[part].contiguous()
            kept[f"model.layers.{name}.codes"] = codes.contiguous()
            meta = {**meta, "scale": meta["scale"].float(), "zero": meta["zero"].float()}
            module.weight.data = Quantizer.dequantize(codes, meta).reshape(module.weight.shape).float()
    model.save_pretrained(options.out)
    AutoTokenizer.from_pretrained(options.model).save_pretrained(options.out)
    save_file(kept, f"{options.out}.weights.safetensors")


def mlx(options):
    import mlx.core
    from mlx_lm.convert import convert
    mlx.core.set_default_device(mlx.core.cpu)
    convert(str(options.model), str(options.out), quantize=True, q_bits=options.bits, q_group_size=options.group, dtype="float16",
            quant_predicate=lambda name, module, *_: hasattr(module, "to_quantized") and "embed" not in name)


def main():
    tools = {tool.__name__: tool for tool in (bitsandbytes, hqq, mlx)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", choices=tools)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--group", type=int, default=64)
    parser.add_argument("--double", action="store_true", help="double quantization of scales")
    options = parser.parse_args()
    tools[options.tool](options)


if __name__ == "__main__":
    main()
