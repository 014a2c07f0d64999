#!/usr/bin/env python3
"""Speed of models that other tools compressed beside Nibble's own of as many bits, in turns.

    bench/imported_models.py prepare FOLDER --nibble PROGRAM [--tokenizer models/demo] [--only gptq,Q6_K]
    bench/imported_models.py run FOLDER --nibble PROGRAM [--device cpu] [--rounds 3] [--threads 2] [--batch 1,8] [--only gptq,Q6_K] [--json FILE]

`prepare` writes random models of 0.77 billion parameters (hidden 2048, ffn 5632, 16 blocks; the output layer in 16 bits)
in Nibble's own schemes, and the same shape as other tools store it: GPTQ, AWQ, compressed-tensors and MLX by `nibble
convert`; GPTQ with act-order by drawing another g_idx; blocks of GGUF drawn at random (needs gguf and numpy; gguf 0.19.0 ran). About
5 GB and a minute. `run` times each beside its own scheme with `nibble bench`, first one and then the other, in a round after round, and prints the
medians of decoding (one token, or of so many sequences) and of a prompt of 128 tokens, and their shares.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

from under_load import run_json

SIZES = ["--hidden", "2048", "--ffn", "5632", "--heads", "32", "--kv-heads", "8", "--layers", "16", "--vocabulary", "8192"]
# What is imported, the own scheme beside it, and the target of `nibble convert` that writes it.
FOLDERS = {"gptq": ("int4-sym-g128", "gptq"), "gptq-act-order": ("int4-sym-g128", "gptq"), "awq": ("int4-asym-g128", "awq"),
           "compressed-tensors": ("int4-sym-g128", "compressed-tensors"), "mlx": ("int4-asym-g64", "mlx")}
# Block types, the own scheme of as many bits as they are held in, and where float16 numbers stand in a block.
BLOCKS = {"Q4_0": ("int4-sym-g32", [0]), "Q8_0": ("int8-sym-g32", [0]), "Q4_K": ("int4-asym-g32", [0, 2]),
          "Q5_K": ("int8-sym-g32", [0, 2]), "Q6_K": ("int8-sym-g32", [208]), "Q3_K": ("int3-asym-g32", [108])}


def own(folder, scheme):
    return folder / f"own-{scheme}"


def file_of(folder, name):
    return folder / (f"{name}.gguf" if name in BLOCKS else name)


def scheme_of(name):
    return (BLOCKS.get(name) or FOLDERS[name])[0]


def convert(nibble, source, target, out):
    subprocess.run([nibble, "convert", source, "--to", target, "-o", out, "-q"], check=True, stdout=subprocess.DEVNULL)


def draw_order(folder):
    """Another g_idx for each layer: the same for layers that read one input, as act-order gives it."""
    import numpy as np

    path = folder / "model.safetensors"
    files = [path] if path.exists() else sorted(folder.glob("*.safetensors"))
    for file in files:
        bytes_of = bytearray(file.read_bytes())
        size = int.from_bytes(bytes_of[:8], "little")
        for name, entry in json.loads(bytes_of[8:8 + size]).items():
            if name.endswith(".g_idx"):
                begin, end = (8 + size + at for at in entry["data_offsets"])
                order = np.random.default_rng(end - begin).permutation((end - begin) // 4)
                bytes_of[begin:end] = np.frombuffer(bytes_of[begin:end], np.int32)[order].tobytes()
        file.write_bytes(bytes_of)
    for name in ("config.json", "quantize_config.json"):
        config = json.loads((folder / name).read_text())
        config.get("quantization_config", config)["desc_act"] = True
        (folder / name).write_text(json.dumps(config))


def draw_blocks(source, type_name, halves, out):
    """A GGUF file with the keys of another, its layers in random blocks."""
    import gguf
    import numpy as np

    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(out, "llama")
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        kind = field.types[0]
        writer.add_key_value(key, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    kind = gguf.GGMLQuantizationType[type_name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    noise = np.random.default_rng(0).integers(0, 256, 1 << 26, dtype=np.uint8)
    for tensor in reader.tensors:
        shape = [int(extent) for extent in reversed(tensor.shape)]
        if len(shape) != 2 or not tensor.name.startswith("blk."):
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
            continue
        blocks = np.resize(noise, (shape[0] * shape[1] // elements, size)).copy()
        for half in halves:
            blocks[:, half:half + 2] = np.frombuffer(np.float16(2.0 ** -12).tobytes(), np.uint8)
        writer.add_tensor(tensor.name, blocks.reshape(shape[0], -1), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def names_of(args):
    return args.only.split(",") if args.only else [*FOLDERS, *BLOCKS]


def prepare(args):
    args.folder.mkdir(parents=True)
    names = names_of(args)
    blocks = [name for name in names if name in BLOCKS]
    for scheme in {*(scheme_of(name) for name in names), *(["int4-sym-g32"] if blocks else [])}:
        subprocess.run([sys.executable, pathlib.Path(__file__).with_name("random_model.py"), own(args.folder, scheme), "--tokenizer",
                        args.tokenizer, "--scheme", scheme, "--output", "bf16", *SIZES], check=True)
    for name, (scheme, target) in FOLDERS.items():
        if name in names:
            convert(args.nibble, own(args.folder, scheme), target, file_of(args.folder, name))
    if "gptq-act-order" in names:
        draw_order(args.folder / "gptq-act-order")
    if not blocks:
        return
    template = args.folder / "template.gguf"
    convert(args.nibble, own(args.folder, "int4-sym-g32"), "gguf", template)
    for name in blocks:
        draw_blocks(template, name, BLOCKS[name][1], file_of(args.folder, name))
    template.unlink()


def speeds(args, model):
    words = [args.nibble, "bench", model, "--pp", "128", "--tg", "24", "--repeats", "3", "--device", args.device, "--threads", str(args.threads),
             "--batch", args.batch, "--json", "-q"]
    result, error = run_json(words, 60)
    if result is None:
        sys.exit(f"{' '.join(map(str, words))}: {error}")
    return {work_of(row): row["tokens_per_s"] for row in result["rows"]}


def work_of(row):
    if row["phase"] == "prefill":
        return "prompt of 128"
    return "one token" if row["batch"] == 1 else f"{row['batch']} sequences"


def run(args):
    rows = []
    for name in names_of(args):
        sides = {"imported": file_of(args.folder, name), "own": own(args.folder, scheme_of(name))}
        found = {side: [] for side in sides}
        for i in range(args.rounds):
            for side in sides if i % 2 == 0 else reversed(list(sides)):
                found[side].append(speeds(args, sides[side]))
        for what in found["own"][0]:
            middle = {side: statistics.median(speed[what] for speed in found[side]) for side in sides}
            rows.append({"model": name, "scheme": scheme_of(name), "work": what, **middle, "share": middle["imported"] / middle["own"]})
            print(f"| {name} | `{scheme_of(name)}` | {what} | {middle['imported']:.1f} | {middle['own']:.1f} | "
                  f"{100 * rows[-1]['share']:.0f} % |", flush=True)
    if args.json:
        args.json.write_text("".join(json.dumps(row) + "\n" for row in rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "run"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--nibble", type=lambda path: pathlib.Path(path).resolve(), required=True)
    parser.add_argument("--tokenizer", type=pathlib.Path, default=pathlib.Path("models/demo"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", default="1")
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    if args.what == "prepare":
        shutil.rmtree(args.folder, ignore_errors=True)
        prepare(args)
    else:
        run(args)


if __name__ == "__main__":
    main()
