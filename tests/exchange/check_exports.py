#!/usr/bin/env python3
"""Reads what `nibble convert` wrote with the tools that it was written for.

    python3 check_exports.py NIBBLE FLOAT_MODEL FOLDER [RECIPE ...]

Quantizes FLOAT_MODEL (a decoder with a tokenizer.json) by each recipe (`float`: none; `foreign`: takes the folders of
other tools that lie here instead) into FOLDER, converts it to every target, and prints
for each the largest difference between the weights that the other tool dequantizes and those that Nibble decodes from the
written files, and for GGUF files of float32 whether llama.cpp writes Nibble's greedy tokens. Ends with 1 where weights
differ at all or tokens do. Needs torch, transformers, gptqmodel, optimum, compressed-tensors, gguf, xllamacpp; a CPU.
"""
import json
import os
import pathlib
import subprocess
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["HF_HUB_OFFLINE"] = "1"
import gguf
import numpy as np
import torch
import transformers as t
from safetensors.torch import load_file

PROMPT = "The history of the city begins with"
TOKENS = 24
TARGETS = {"rtn-w4g128-sym": ["gptq", "awq", "compressed-tensors"], "rtn-w4g128": ["gptq", "awq", "compressed-tensors"],
           "w8a8": ["compressed-tensors", "gptq"], "rtn-w3g128": ["gptq"], "nf4g64": ["awq"]}
BLOCKS = {"rtn-w4g128-sym": "Q4_0", "rtn-w4g128": "Q4_1", "w8a8": "Q8_0", "rtn-w3g128": "Q4_1", "nf4g64": "Q4_1"}
failures = []


def nibble(*words):
    done = subprocess.run([NIBBLE, *map(str, words), "--json", "-q"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"nibble {' '.join(map(str, words))}: {done.stderr}")
    return json.loads(done.stdout)


def plain(model):
    """The weights of linear layers that Nibble decodes, float32."""
    out = FOLDER / (pathlib.Path(model).name + "-plain")
    if not out.exists():
        nibble("convert", model, "--to", "hf", "--scheme", "f32", "-o", out)
    weights = {}
    for file in sorted(out.glob("*.safetensors")):
        weights.update({name: value.float() for name, value in load_file(file).items()})
    return weights


def dequantized(module):
    """As the module of the other tool does it, with float32 scales, [out, in]."""
    kind = type(module).__name__
    if "Awq" in kind:
        from gptqmodel.quantization.awq.utils.packing_utils import dequantize_gemm
        return dequantize_gemm(module.qweight, module.qzeros, module.scales.float(), 4, module.group_size).t()
    module.scales = module.scales.float()
    return module.dequantize_weight().float().t()


def weights_of(folder, target):
    more = {}
    if target == "compressed-tensors":
        more["quantization_config"] = t.CompressedTensorsConfig(run_compressed=False, dequantize=True)
    model = t.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32 if more else torch.float16,
                                                   device_map="cpu", **more)
    found = {}
    for name, module in model.named_modules():
        if hasattr(module, "qweight"):
            found[name + ".weight"] = dequantized(module)
        elif isinstance(module, torch.nn.Linear) and name != "lm_head":
            found[name + ".weight"] = module.weight.data.float()
    return found


def report(what, difference, count):
    print(f"{what}: largest difference {difference:g} in {count} layers", flush=True)
    if difference != 0 or count == 0:
        failures.append(what)


def compare(what, found, expected, rounded=False):
    worst, count = 0.0, 0
    for name, value in found.items():
        reference = expected[name]
        reference = reference.half().float() if rounded else reference
        worst, count = max(worst, (value - reference).abs().max().item()), count + 1
    report(what, worst, count)


def check_folders(model, recipe):
    if FAMILY == "gpt2":
        return
    for target in TARGETS[recipe]:
        out = FOLDER / f"{recipe}-{target}"
        made = nibble("convert", model, "--to", target, "-o", out)
        found = weights_of(out, target)
        rounded = target == "compressed-tensors"  # transformers multiplies in the scales' type, float16
        exact = f"{made['exact_layers']} of {len(made['layers'])} layers exact, error {made['relative_error']:.3g}"
        compare(f"{recipe} -> {target} ({exact}), the tool against Nibble's reading", found, plain(out), rounded)
        if made["exact_layers"] == len(made["layers"]):
            compare(f"{recipe} -> {target}, the tool against the source", found, plain(model), rounded)


def gguf_weights(path):
    weights = {}
    types = set()
    for tensor in gguf.GGUFReader(path).tensors:
        weights[tensor.name] = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(
            tuple(reversed(tensor.shape.tolist())))
        types.add(tensor.tensor_type.name)
    return weights, types


NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj"}
GPT2_NAMES = {"attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}


def check_blocks(model, recipe):
    out = FOLDER / f"{recipe}.gguf"
    made = nibble("convert", model, "--to", "gguf", "-o", out)
    found, types = gguf_weights(out)
    if BLOCKS[recipe] not in types:
        failures.append(f"{recipe}: no {BLOCKS[recipe]} in {types}")
    config = json.loads((FLOAT / "config.json").read_text())
    expected = plain(out)
    source = plain(model)
    gpt2 = config["model_type"] == "gpt2"
    heads = {"attn_q": config.get("num_attention_heads"), "attn_k": config.get("num_key_value_heads")}
    squares = [0.0, 0.0]
    worst, count = 0.0, 0
    for name, value in found.items():
        part = name.split(".")
        if part[0] != "blk" or part[2] not in (GPT2_NAMES if gpt2 else NAMES) or part[3] != "weight":
            continue
        root = f"transformer.h.{part[1]}.{GPT2_NAMES[part[2]]}" if gpt2 else f"model.layers.{part[1]}.{NAMES[part[2]]}"
        if not gpt2 and part[2] in heads:  # back from llama.cpp's order of rows
            h = heads[part[2]]
            value = value.reshape(h, value.shape[0] // h // 2, 2, -1).swapaxes(1, 2).reshape(value.shape)
        own = expected.get(f"{root}.weight", expected.get(f"{root}.weight".removeprefix("transformer.")))
        before = source.get(f"{root}.weight", source.get(f"{root}.weight".removeprefix("transformer."))).numpy()
        own = own.numpy()
        own, before = (own.T, before.T) if gpt2 else (own, before)
        worst, count = max(worst, float(np.abs(value - own).max())), count + 1
        squares[0] += float(((value - before).astype(np.float64) ** 2).sum())
        squares[1] += float((before.astype(np.float64) ** 2).sum())
    error = (squares[0] / squares[1]) ** 0.5
    report(f"{recipe} -> {BLOCKS[recipe]}, gguf.dequantize against Nibble's reading", worst, count)
    said = made["relative_error"]
    print(f"{recipe} -> {BLOCKS[recipe]}: error {error:.4g} by gguf.dequantize, Nibble says {said:.4g}")
    if abs(error - said) > 1e-6 + 1e-3 * said:
        failures.append(f"{recipe}: error")


def llama_cpp(path):
    import xllamacpp
    settings = xllamacpp.CommonParams()
    settings.model.path, settings.n_ctx, settings.warmup = str(path), 256, False
    settings.cpuparams.n_threads = 1
    server = xllamacpp.Server(settings)
    answer = server.handle_completions({"prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0, "cache_prompt": False,
                                        "n_probs": 1, "ignore_eos": True})
    answer = json.loads(answer) if isinstance(answer, (bytes, str)) else answer
    return answer["choices"][0]["text"]


def check_tokens(path, what):
    theirs = llama_cpp(path)
    for model in (FLOAT, path):
        ours = nibble("run", model, "-p", PROMPT, "-n", TOKENS, "--temp", "0", "--ignore-eos")["text"]
        same = ours.removeprefix(PROMPT) == theirs
        print(f"{what}: llama.cpp writes what Nibble writes from {model.name}: {same}")
        if not same:
            print(f"  {theirs!r}\n  {ours!r}")
            failures.append(what)


def check_plain(model, recipe):
    """transformers writes Nibble's greedy tokens from the decoded weights, and misses no tensor."""
    plain(model)
    folder = FOLDER / (model.name + "-plain")
    network, info = t.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    wrong = {key: value for key, value in info.items() if value and key != "error_msgs"}
    tokenizer = t.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    ids = tokenizer(PROMPT, return_tensors="pt", add_special_tokens=False)["input_ids"]
    out = network.generate(ids, max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False)
    theirs = tokenizer.decode(out[0, ids.shape[1]:])
    ours = nibble("run", model, "-p", PROMPT, "-n", TOKENS, "--temp", "0", "--ignore-eos", "--activations",
                  "float")["text"].removeprefix(PROMPT)
    print(f"{recipe} -> hf: transformers writes what Nibble writes from the source: {theirs == ours}; {wrong or 'all'} loaded")
    if theirs != ours or wrong:
        print(f"  {theirs!r}\n  {ours!r}")
        failures.append(f"{recipe} -> hf")


def check_foreign(source):
    """Folders of other tools, to each target."""
    for target in ("gptq", "awq", "compressed-tensors"):
        out = FOLDER / f"{source.name}-{target}"
        scheme = ["--scheme", "int4-asym-g32"] if target == "awq" else []  # rows of 64 inputs
        made = nibble("convert", source, "--to", target, "-o", out, *scheme)
        exact = f"{made['exact_layers']} of {len(made['layers'])} layers exact, error {made['relative_error']:.3g}"
        compare(f"{source.name} -> {target} ({exact}), the tool against Nibble's reading", weights_of(out, target),
                plain(out), target == "compressed-tensors")


def main():
    if FAMILY != "opt":
        path = FOLDER / "float.gguf"
        nibble("convert", FLOAT, "--to", "gguf", "--scheme", "f32", "-o", path)
        check_tokens(path, "F32")
    for recipe in sys.argv[4:] or TARGETS:
        if recipe == "float":
            continue
        if recipe == "foreign":
            for name in ("gptq", "awq", "ct-pack", "ct-w8a8", "bnb-nf4", "ct-mxfp4"):
                check_foreign(pathlib.Path(__file__).parent / name)
            continue
        model = FOLDER / recipe
        nibble("quantize", FLOAT, "-o", model, "--recipe", recipe, "--threads", "1")
        check_plain(model, recipe)
        check_folders(model, recipe)
        if FAMILY != "opt":
            check_blocks(model, recipe)
    print("failed: " + ", ".join(failures) if failures else "all the same")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    NIBBLE, FLOAT, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    FAMILY = json.loads((FLOAT / "config.json").read_text())["model_type"]
    FOLDER.mkdir(exist_ok=True, parents=True)
    main()
