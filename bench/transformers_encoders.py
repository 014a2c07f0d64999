#!/usr/bin/env python3
"""Times encoders of Hugging Face transformers on a GPU, in FP16 with random weights: a JSON line for each pair.

    bench/transformers_encoders.py --sizes base,large --peers eager,sdpa,graph --shapes 1x32,8x128 [--seconds 0.5]

Peers: eager and sdpa (its two ways of attention), graph (sdpa without a mask, recorded into a CUDA graph), compile,
compile-graphs and compile-tuned (torch.compile of sdpa: mode default, reduce-overhead, max-autotune). Milliseconds are medians of wall
times of one call with a synchronisation behind it. Token ids lie on the GPU already, and results stay there.
encoder_peers.py runs this beside Nibble.
"""
import argparse
import json
import statistics
import sys
import time

import torch
import transformers

SIZES = {"base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
         "large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}}
COMPILE_MODES = {"compile": "default", "compile-graphs": "reduce-overhead", "compile-tuned": "max-autotune"}
PEERS = ["eager", "sdpa", "graph", *COMPILE_MODES]
DEVICE = "cuda"
WARM_UPS = 5
FEWEST_CALLS = 20


def make_model(size, attention):
    torch.manual_seed(0)
    config = transformers.BertConfig(**SIZES[size])
    model = transformers.AutoModel.from_config(config, attn_implementation=attention)
    return model.half().to(DEVICE).eval()


class WithoutMask(torch.nn.Module):
    """What the model computes of texts of one length. It makes a mask and looks at it, which no graph can record."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        states = self.model.encoder(self.model.embeddings(ids))[0]
        return states, self.model.pooler(states)


def recorded(model, ids):
    """A call that launches the model's work as one CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            model(ids)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = model(ids)
    return lambda: (graph.replay(), results)


def make_call(peer, model, ids):
    if peer in COMPILE_MODES:
        torch._dynamo.reset()
        compiled = torch.compile(model, mode=COMPILE_MODES[peer], dynamic=False)
        return lambda: compiled(ids)
    return recorded(WithoutMask(model), ids) if peer == "graph" else lambda: model(ids)


def median_milliseconds(call, seconds):
    for _ in range(WARM_UPS):
        call()
    torch.cuda.synchronize()
    times = []
    while len(times) < FEWEST_CALLS or sum(times) < seconds:
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times), len(times)


def first_line(error):
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def measure(peer, model, shape, seconds):
    batch, tokens = (int(part) for part in shape.split("x"))
    ids = torch.randint(1000, 30000, (batch, tokens), device=DEVICE)
    begin = time.perf_counter()
    call = make_call(peer, model, ids)
    call()
    torch.cuda.synchronize()
    made = time.perf_counter() - begin
    milliseconds, calls = median_milliseconds(call, seconds)
    return {"ms": milliseconds, "calls": calls, "seconds_to_make": made}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="base")
    parser.add_argument("--peers", default="eager,sdpa,graph")
    parser.add_argument("--shapes", default="1x32,1x128,8x32,8x128,32x128,64x128,64x256")
    parser.add_argument("--seconds", type=float, default=0.5, help="that each pair is timed")
    args = parser.parse_args()
    peers = args.peers.split(",")
    unknown = [name for name in peers if name not in PEERS]
    unknown += [name for name in args.sizes.split(",") if name not in SIZES]
    if unknown or not torch.cuda.is_available():
        print(f"transformers_encoders: {unknown[0]} is not known" if unknown
              else "transformers_encoders: PyTorch finds no GPU", file=sys.stderr)
        return 2
    print(json.dumps({"device": torch.cuda.get_device_name(0), "torch": torch.__version__,
                      "transformers": transformers.__version__}), flush=True)
    for size in args.sizes.split(","):
        models = {}
        for shape in args.shapes.split(","):
            for peer in peers:
                attention = "eager" if peer == "eager" else "sdpa"
                row = {"size": size, "shape": shape, "name": peer}
                try:
                    if attention not in models:
                        models[attention] = make_model(size, attention)
                    with torch.inference_mode():
                        row.update(measure(peer, models[attention], shape, args.seconds))
                except Exception as error:  # whatever a peer can't do is said in its row
                    row["error"] = first_line(error)
                print(json.dumps(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
