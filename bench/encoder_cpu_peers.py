#!/usr/bin/env python3
"""Times Nibble's encoders on a CPU beside ONNX Runtime, OpenVINO with NNCF, CTranslate2 and PyTorch: the same random
weights, in turns, each turn a few calls. Prints a table, and JSON with --json.

    python3 -m venv PEERS
    PEERS/bin/pip install torch transformers onnx onnxruntime onnxscript openvino nncf ctranslate2 safetensors

    bench/random_model.py FLOAT --tokenizer MODEL --bert base
    build/release/bin/nibble quantize FLOAT -o INT8 --recipe i8-qall
    PEERS/bin/python bench/encoder_cpu_peers.py --float FLOAT --int8 INT8 --work FOLDER --bench build/release/bench/encoder_cpu_bench

    PEERS/bin/python bench/encoder_cpu_peers.py --float FLOAT --check --bench ...     # states beside transformers' only

FOLDER keeps the peers' models from run to run. Each peer has its own quantizer make INT8 of the float weights: ONNX
Runtime the dynamic one, per channel, of the graph that its optimizer for BERT fuses; NNCF the one for transformers, with
token ids of the same rule; CTranslate2 `int8_float32`. OpenVINO computes the rest in float32, as the others do; the row
`-bf16` leaves that to it. Tokens are those of encoder_cpu_bench.

Milliseconds are medians over all rounds of the medians of each turn. The share is that of the limit that
encoder_cpu_bench measures for INT8 or float32, which the layers' products alone make. The cosine is that of all states
of the first shape to transformers in float32.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PEERS = ["ort-int8", "openvino-int8", "openvino-int8-bf16", "ctranslate2-int8", "ort-f32", "openvino-f32", "ctranslate2-f32",
         "torch-f32"]
NIBBLE = {"nibble-int8": "int8", "nibble-f32": "float"}
CALIBRATION_TEXTS = 8
PAUSE = 0.25  # seconds: threads of the last one go to sleep


# Making the peers' models

def tokens_of(shape, vocabulary):
    import numpy as np
    batch, length = shape
    return (5 + np.arange(batch * length, dtype=np.int64) * 7919 % (vocabulary - 5)).reshape(shape)


def make_huggingface(source, folder):
    """The weights behind a tokenizer that has a word for each of the embeddings, as CTranslate2 wants it."""
    import transformers
    folder.mkdir()
    config = json.loads((source / "config.json").read_text())
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(config["vocab_size"] - 5)]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    transformers.BertTokenizerFast(vocab_file=str(folder / "vocab.txt")).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps({**config, "position_embedding_type": "absolute"}))
    os.symlink((source / "model.safetensors").resolve(), folder / "model.safetensors")


def load_torch(source, attention="sdpa"):
    import transformers
    return transformers.BertModel.from_pretrained(source, add_pooling_layer=False, attn_implementation=attention).eval()


def make_onnx(source, path):
    import torch

    class States(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = load_torch(source, "eager")  # the optimizer of ONNX Runtime knows this form

        def forward(self, input_ids, attention_mask):
            return self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    ids = torch.full((2, 16), 7)
    names = ["input_ids", "attention_mask"]
    axes = {name: {0: "batch", 1: "tokens"} for name in [*names, "states"]}
    torch.onnx.export(States(), (ids, torch.ones_like(ids)), str(path), input_names=names, output_names=["states"],
                      dynamic_axes=axes, dynamo=False, opset_version=17)


def make_fused_onnx(source, onnx, path):
    from onnxruntime.transformers import optimizer
    config = json.loads((source / "config.json").read_text())
    model = optimizer.optimize_model(str(onnx), model_type="bert", num_heads=config["num_attention_heads"],
                                     hidden_size=config["hidden_size"])
    print("ONNX Runtime fused", dict(model.get_fused_operator_statistics()), file=sys.stderr)
    model.save_model_to_file(str(path))


def make_openvino_int8(onnx, path, vocabulary):
    import nncf
    import numpy as np
    import openvino
    ids = tokens_of((CALIBRATION_TEXTS, 128), vocabulary)
    texts = [{"input_ids": row[None], "attention_mask": np.ones((1, 128), np.int64)} for row in ids]
    model = nncf.quantize(openvino.convert_model(str(onnx)), nncf.Dataset(texts), model_type=nncf.ModelType.TRANSFORMER,
                          subset_size=CALIBRATION_TEXTS)
    openvino.save_model(model, str(path), compress_to_fp16=False)


def make_peers(source, work, names):
    """What is not in the folder yet."""
    vocabulary = json.loads((source / "config.json").read_text())["vocab_size"]
    work.mkdir(parents=True, exist_ok=True)
    folder, onnx, fused = work / "huggingface", work / "bert.onnx", work / "fused.onnx"

    def make(path, function, *arguments):
        if not path.exists():
            print(f"making {path.name}", file=sys.stderr, flush=True)
            function(*arguments)

    def quantize_onnx():
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic
        quantize_dynamic(str(fused), str(work / "int8.onnx"), weight_type=QuantType.QInt8, per_channel=True,
                         extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})

    def convert_ctranslate2(to, quantization):
        from ctranslate2.converters import TransformersConverter
        TransformersConverter(str(folder)).convert(str(work / to), quantization=quantization)

    make(folder, make_huggingface, source, folder)
    if any(name.startswith(("ort", "openvino")) for name in names):
        make(onnx, make_onnx, source, onnx)
    if any(name.startswith("ort") for name in names):
        make(fused, make_fused_onnx, source, onnx, fused)
    if "ort-int8" in names:
        make(work / "int8.onnx", quantize_onnx)
    if any(name.startswith("openvino-int8") for name in names):
        make(work / "openvino-int8.xml", make_openvino_int8, onnx, work / "openvino-int8.xml", vocabulary)
    for name in ("int8", "f32"):
        if f"ctranslate2-{name}" in names:
            make(work / f"ctranslate2-{name}", convert_ctranslate2, f"ctranslate2-{name}",
                 "int8_float32" if name == "int8" else "float32")


# One peer in a process of its own: reads "BATCH LENGTH REPEATS" and answers with the median in milliseconds

def open_ort(work, name, threads):
    import numpy as np
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    path = work / ("int8.onnx" if name == "ort-int8" else "fused.onnx")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda ids: session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0]


def open_openvino(work, name, threads):
    import numpy as np
    import openvino
    settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
    if not name.endswith("bf16"):
        settings["INFERENCE_PRECISION_HINT"] = "f32"
    path = work / ("bert.onnx" if name == "openvino-f32" else "openvino-int8.xml")
    core = openvino.Core()
    request = core.compile_model(core.read_model(str(path)), "CPU", settings).create_infer_request()
    return lambda ids: request.infer({"input_ids": ids, "attention_mask": np.ones_like(ids)})[0]


def open_ctranslate2(work, name, threads):
    import ctranslate2
    import numpy as np
    encoder = ctranslate2.Encoder(str(work / name), device="cpu", inter_threads=1, intra_threads=threads,
                                  compute_type="int8_float32" if name.endswith("int8") else "float32")

    def run(ids):
        rows, length = ids.shape
        view = ctranslate2.StorageView.from_array(ids.astype(np.int32))
        lengths = ctranslate2.StorageView.from_array(np.full(rows, length, np.int32))
        return np.array(encoder.forward_batch(view, lengths=lengths).last_hidden_state)
    return run


def open_torch(work, _, threads):
    import torch
    torch.set_num_threads(threads)
    model = load_torch(work / "huggingface")

    def run(ids):
        with torch.inference_mode():
            return model(torch.from_numpy(ids)).last_hidden_state.numpy()
    return run


def serve(work, name, threads, shape, states):
    opened = {"ort": open_ort, "openvino": open_openvino, "ctranslate2": open_ctranslate2, "torch": open_torch}
    run = opened[name.split("-")[0]](work, name, threads)
    vocabulary = json.loads((work / "huggingface" / "config.json").read_text())["vocab_size"]
    run(tokens_of(shape, vocabulary)).astype("float32").tofile(states)
    print("ready", flush=True)
    for line in sys.stdin:
        batch, length, repeats = (int(word) for word in line.split())
        ids = tokens_of((batch, length), vocabulary)
        run(ids)
        times = []
        for _ in range(repeats):
            begin = time.perf_counter()
            run(ids)
            times.append(time.perf_counter() - begin)
        print(f"{1e3 * statistics.median(times):.4f}", flush=True)


# All of them in turns

class Worker:
    """A process that takes turns."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.greeting = self.process.stdout.readline()

    def milliseconds(self, shape, repeats):
        self.process.stdin.write(f"{shape[0]} {shape[1]} {repeats}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"encoder_cpu_peers: {self.process.args[0]} ended")
        return float(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def nibble_states(args, model, shape, path):
    subprocess.run([args.bench, model, "--shapes", f"{shape[0]}x{shape[1]}", "--rounds", "1", "--threads", "2", "--states", path],
                   check=True, stdout=subprocess.DEVNULL)


def start(args, name, threads, shape, states):
    if name in NIBBLE:
        model = getattr(args, NIBBLE[name])
        nibble_states(args, model, shape, states)
        return Worker([args.bench, model, "--threads", str(threads), "--turns", "1"])
    return Worker([sys.executable, __file__, "--serve", name, "--threads", str(threads), "--work", args.work, "--shapes",
                   f"{shape[0]}x{shape[1]}", "--states", states])


def read_floats(path):
    import numpy as np
    return np.fromfile(path, np.float32).astype(np.float64)


def cosine(a, b):
    import numpy as np
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def layer_products(source):
    config = json.loads((source / "config.json").read_text())
    hidden = config["hidden_size"]
    return config["num_hidden_layers"] * (4 * hidden * hidden + 2 * hidden * config["intermediate_size"])


def limit_of(greeting):
    """Multiply-adds per second in encoder_cpu_bench's first line."""
    return 1e9 * float(greeting.split(" GMAC/s")[0].split()[-1])


def measure(args, names, threads, shapes, reference):
    rows, limits = [], {}
    with tempfile.TemporaryDirectory() as folder:
        workers = {}
        for name in names:
            states = pathlib.Path(folder) / name
            worker = workers[name] = start(args, name, threads, shapes[0], str(states))
            if name in NIBBLE:
                limits[name.split("-")[1]] = limit_of(worker.greeting)
            rows += [{"name": name, "threads": threads, "shape": f"{shape[0]}x{shape[1]}", "rounds": [],
                      "cosine": cosine(read_floats(states), reference)} for shape in shapes]
        for _ in range(args.rounds):
            for row in rows:
                time.sleep(PAUSE)
                shape = parse_shape(row["shape"])
                row["rounds"].append(workers[row["name"]].milliseconds(shape, args.repeats if shape[0] == 1 else 1))
        for worker in workers.values():
            worker.close()
    for row in rows:
        batch, length = parse_shape(row["shape"])
        row["ms"] = statistics.median(row["rounds"])
        limit = limits.get("f32" if row["name"].endswith("f32") else "int8")
        row["share"] = batch * length * layer_products(args.float) / (1e-3 * row["ms"]) / limit if limit else None
    return rows, limits


def print_table(rows, limits):
    print("limits:", ", ".join(f"{kind} {limit * 1e-9:.0f} GMAC/s" for kind, limit in limits.items()))
    print("| threads | shape | | ms | least to most | Nibble is faster by | share of the limit | cosine |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        kind = "f32" if row["name"].endswith("f32") else "int8"
        ours = [other["ms"] for other in rows
                if (other["shape"], other["name"]) == (row["shape"], f"nibble-{kind}")]
        faster = f"{row['ms'] / ours[0]:.2f}" if ours else ""
        share = f"{row['share']:.2f}" if row["share"] else ""
        print(f"| {row['threads']} | {row['shape']} | {row['name']} | {row['ms']:.1f} | {min(row['rounds']):.1f} to "
              f"{max(row['rounds']):.1f} | {faster} | {share} | {row['cosine']:.5f} |", flush=True)


def reference_states(source, shape):
    import torch
    vocabulary = json.loads((source / "config.json").read_text())["vocab_size"]
    model = load_torch(source)
    with torch.inference_mode():
        return model(torch.from_numpy(tokens_of(shape, vocabulary))).last_hidden_state.numpy().ravel().astype("float64")


def check(args, shapes):
    """States of the float model beside transformers', for all shapes."""
    worst = 0.0
    for shape in shapes:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "states")
            nibble_states(args, args.float, shape, path)
            ours, theirs = read_floats(path), reference_states(args.float, shape)
        difference = float(abs(ours - theirs).max())
        worst = max(worst, difference)
        print(f"{shape[0]}x{shape[1]}: differs from transformers by {difference:.2e} at the most, of states up to "
              f"{float(abs(theirs).max()):.2f}; cosine {cosine(ours, theirs):.9f}")
    return 0 if worst <= 1e-3 else 1


def parse_shape(text):
    batch, length = text.split("x")
    return int(batch), int(length)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--float", type=pathlib.Path, help="a BERT model in float32")
    parser.add_argument("--int8", type=pathlib.Path, help="Nibble's INT8 of it")
    parser.add_argument("--work", type=pathlib.Path, help="the folder of the peers' models")
    parser.add_argument("--bench", default="build/release/bench/encoder_cpu_bench")
    parser.add_argument("--names", default=",".join([*NIBBLE, *PEERS]))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--shapes", default="1x128,8x128")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=3, help="calls of a turn of one text; of more texts it is one call")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--make", action="store_true", help="only make the peers' models")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--states", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    args = parse_arguments()
    shapes = [parse_shape(text) for text in args.shapes.split(",")]
    if args.serve:
        serve(args.work, args.serve, int(args.threads), shapes[0], args.states)
        return 0
    if args.check:
        return check(args, shapes)
    names = args.names.split(",")
    unknown = [name for name in names if name not in NIBBLE and name not in PEERS]
    if unknown:
        print(f"encoder_cpu_peers: {unknown[0]} is not known; there are {', '.join([*NIBBLE, *PEERS])}", file=sys.stderr)
        return 2
    make_peers(args.float, args.work, names)
    if args.make:
        return 0
    reference = reference_states(args.float, shapes[0])
    everything = []
    for threads in (int(word) for word in args.threads.split(",")):
        rows, limits = measure(args, names, threads, shapes, reference)
        print_table(rows, limits)
        everything += rows
    if args.json:
        args.json.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
