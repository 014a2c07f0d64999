#!/usr/bin/env python3
"""Quantizes a model by the Python libraries of others, on a CPU, for bench/measure_peers.py.

    bench/quantize_with_peers.py TOOL MODEL OUT [--calib FILE] [--bits N] [--group N] [--desc-act] [--asym] [--mse X] [--double]

TOOL is gptqmodel, bitsandbytes (NF4), hqq or mlx. Calibration is on the first windows of 1,024 tokens
of the text, tokenized once without special tokens, as `nibble quantize --seq-len 1024` reads it. Embedding
and output layer stay float. Everything that is not an option is the tool's own default.

HQQ's folder has the decoded weights, which any program reads; OUT.weights.safetensors has what HQQ stores.
"""
import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
WINDOW = 1024


def windows(options):
    """The calibration windows, each a list of token ids."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(options.model / "tokenizer.json"))
    ids = tokenizer.encode(options.calib.read_text(encoding="utf-8"), add_special_tokens=False).ids
    found = [ids[begin:begin + WINDOW] for begin in range(0, options.samples * WINDOW, WINDOW)]
    if len(found[-1]) < WINDOW:
        sys.exit(f"{options.calib}: {len(ids)} tokens; {options.samples * WINDOW} are needed")
    return found


def gptqmodel(options):
    from gptqmodel import GPTQModel, QuantizeConfig
    settings = {"mse": options.mse} if options.mse else {}
    config = QuantizeConfig(bits=options.bits, group_size=options.group, sym=not options.asym, desc_act=options.desc_act,
                            **settings)
    model = GPTQModel.load(str(options.model), config, device="cpu")
    model.quantize([{"input_ids": ids, "attention_mask": [1] * WINDOW} for ids in windows(options)], batch_size=1)
    model.save(str(options.out))


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
    tools = {tool.__name__: tool for tool in (gptqmodel, bitsandbytes, hqq, mlx)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", choices=tools)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--calib", type=Path)
    parser.add_argument("--samples", type=int, default=128, help="calibration windows of 1,024 tokens")
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--group", type=int, default=128)
    parser.add_argument("--desc-act", action="store_true")
    parser.add_argument("--asym", action="store_true")
    parser.add_argument("--mse", type=float)
    parser.add_argument("--double", action="store_true", help="double quantization of scales")
    options = parser.parse_args()
    if options.tool == "gptqmodel" and not options.calib:
        parser.error(f"{options.tool} needs --calib")
    tools[options.tool](options)


if __name__ == "__main__":
    main()
