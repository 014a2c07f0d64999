#!/usr/bin/env python3
"""Makes a Llama of 7B's shapes with random weights, and measures `nibble quantize` on it: memory and time.

    bench/quantize_large.py FOLDER --layers 2 --samples 4 --seq-len 256 --recipe gptq-w4g128 [-- more options of quantize]

The model (FOLDER/model-<layers>) is written once, tensor by tensor, and found again by the next call; the result
(FOLDER/result) is removed before each call unless `--resume` stands among the options of quantize. `--kill-after N`
kills the program with SIGKILL as soon as N blocks are written. Prints a JSON object:

    peak_rss_bytes     most memory of the process, pages of mapped files among it (VmHWM; such pages can be dropped)
    peak_anon_bytes    most memory of its own, sampled five times a second (RssAnon)
    block_seconds      from one finished block to the next; the first counts from the start
"""
import argparse
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HIDDEN, FFN, HEADS, VOCABULARY = 4096, 11008, 32, 32000
CHUNK = 1 << 24  # bytes that are made at a time

# High bytes (sign, upper 7 bits of the exponent) of bfloat16 weights of about N(0, 0.02^2): the magnitudes 2^-7 to
# 2^-5, 2^-9 to 2^-7 and 2^-11 to 2^-9 in the shares 92:27:9. The low bytes are uniform.
HIGH_BYTES = bytes(sign | top for sign in (0x00, 0x80) for top, share in ((60, 92), (59, 27), (58, 9))
                   for _ in range(share))


def weight_chunks(count, rng):
    left = 2 * count
    while left > 0:
        noise = rng.randbytes(min(left, CHUNK))
        chunk = bytearray(noise)
        chunk[1::2] = noise[1::2].translate(HIGH_BYTES)
        yield chunk
        left -= len(chunk)


def tensors(layers):
    """Names and shapes in the order of the file; vectors are norm weights."""
    yield "model.embed_tokens.weight", [VOCABULARY, HIDDEN]
    for i in range(layers):
        prefix = f"model.layers.{i}."
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            yield f"{prefix}self_attn.{name}.weight", [HIDDEN, HIDDEN]
        yield prefix + "mlp.gate_proj.weight", [FFN, HIDDEN]
        yield prefix + "mlp.up_proj.weight", [FFN, HIDDEN]
        yield prefix + "mlp.down_proj.weight", [HIDDEN, FFN]
        yield prefix + "input_layernorm.weight", [HIDDEN]
        yield prefix + "post_attention_layernorm.weight", [HIDDEN]
    yield "model.norm.weight", [HIDDEN]
    yield "lm_head.weight", [VOCABULARY, HIDDEN]


def write_weights(path, layers, seed):
    header, offset = {}, 0
    for name, shape in tensors(layers):
        size = 2 * shape[0] * (shape[1] if len(shape) == 2 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    rng = random.Random(seed)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, shape in tensors(layers):
            if len(shape) == 1:
                file.write(b"\x80\x3f" * shape[0])  # ones
                continue
            for chunk in weight_chunks(shape[0] * shape[1], rng):
                file.write(chunk)


def make_model(folder, layers, seed):
    if (folder / "config.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(folder / "model.safetensors", layers, seed)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ROOT / "models/demo" / name, folder / name)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
        "intermediate_size": FFN, "num_hidden_layers": layers, "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS, "vocab_size": VOCABULARY, "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False,
        "torch_dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(config, indent=1))  # last: its presence says that all is written


def status_bytes(pid):
    """VmHWM and RssAnon of a living process; nothing when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    fields = (line.split(":", 1) for line in lines)
    return {name: 1024 * int(value.split()[0]) for name, value in fields if name in ("VmHWM", "RssAnon")}


def measure(command, result, kill_after):
    partial = result.parent / f".{result.name}.partial"
    started = last = time.monotonic()
    process = subprocess.Popen(command)
    anon, hwm, seconds, killed = 0, 0, [], False
    known = len(list(partial.glob("model-*.safetensors")))
    while process.poll() is None:
        now = status_bytes(process.pid)
        anon, hwm = max(anon, now.get("RssAnon", 0)), max(hwm, now.get("VmHWM", 0))
        shards = len(list(partial.glob("model-*.safetensors")))
        if shards > known:
            seconds.append(round(time.monotonic() - last, 1))
            last, known = time.monotonic(), shards
            if kill_after and known >= kill_after:
                process.send_signal(signal.SIGKILL)
                killed = True
        time.sleep(0.2)
    return {"exit_code": process.returncode, "killed": killed, "peak_rss_bytes": hwm, "peak_anon_bytes": anon,
            "block_seconds": seconds, "seconds": round(time.monotonic() - started, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--recipe", default="gptq-w4g128")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--seq-len", type=int, default=256)
    parser.add_argument("--nibble", default=str(ROOT / "build/release/nibble"))
    parser.add_argument("--kill-after", type=int, default=0, metavar="BLOCKS")
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    arguments, more = parser.parse_args(words[:split]), words[split + 1:]
    model = arguments.folder / f"model-{arguments.layers}"
    make_model(model, arguments.layers, arguments.seed)
    result = arguments.folder / "result"
    if "--resume" not in more:
        for old in (result, arguments.folder / ".result.partial"):
            shutil.rmtree(old, ignore_errors=True)
    command = [arguments.nibble, "quantize", str(model), "-o", str(result), "--recipe", arguments.recipe,
               "--calib", str(ROOT / "models/demo/texts/calibration.txt"), "--samples", str(arguments.samples),
               "--seq-len", str(arguments.seq_len), *more]
    figures = measure(command, result, arguments.kill_after)
    print(json.dumps({"command": command, **figures}, indent=1))
    return 0 if figures["exit_code"] == 0 or figures["killed"] else 1


if __name__ == "__main__":
    sys.exit(main())
