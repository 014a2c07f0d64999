#!/usr/bin/env python3
"""Times encoders of Nibble beside those of Hugging Face transformers on a GPU, in turns.

    bench/encoder_peers.py --base f16=FOLDER --base w8a8=FOLDER --large w8a8=FOLDER [--program build/release/nibble]
        [--shapes 1x32,64x256] [--peers eager,sdpa,graph] [--compile compile,compile-graphs] [--rounds 2]
        [--seconds 540] [--json FILE]

Models are of the shape of BERT-base or -large (random_model.py makes them); names are what the table calls them. Each
round runs `nibble bench` of every model, then the peers (transformers_encoders.py); numbers are the medians of the
rounds' medians, in milliseconds of a call with all that the host does. Nibble's calls bring token ids to the GPU and
the first states back; the peers' ids lie there already, and their results stay. torch.compile takes minutes for each
pair: it comes last, once, until --seconds are over. Where a peer has no number, the table says "-" and a line below
says why.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import threading
import time

SHAPES = "1x32,1x128,8x32,8x128,32x128,64x128,64x256"
PEERS = pathlib.Path(__file__).with_name("transformers_encoders.py")
HUGGING_FACE = ["eager", "sdpa"]


class Measurements:
    """Milliseconds of each name in each round, by size and shape."""

    def __init__(self):
        self.rounds = {}  # (size, shape, name): [ms]
        self.remarks = []
        self.versions = {}

    def add(self, size, shape, name, milliseconds):
        self.rounds.setdefault((size, shape, name), []).append(milliseconds)

    def remark(self, text):
        if text not in self.remarks:
            self.remarks.append(text)

    def median(self, size, shape, name):
        values = self.rounds.get((size, shape, name))
        return statistics.median(values) if values else None

    def best(self, size, shape, names):
        values = [self.median(size, shape, name) for name in names]
        return min((value for value in values if value is not None), default=None)


def run_lines(command, deadline, take):
    """Hands the lines of a program's output to take(). Its exit code, or None: it was ended at the deadline."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    timer = threading.Timer(max(0.0, deadline - time.monotonic()), process.kill)
    timer.start()
    try:
        for line in process.stdout:
            take(line)
        code = process.wait()
    finally:
        timer.cancel()
        process.kill()  # does nothing to one that has ended
    return None if time.monotonic() >= deadline else code


def run_nibble(args, size, name, folder, deadline, found):
    lines = []
    code = run_lines([args.program, "bench", folder, "--device", "cuda", "--shapes", args.shapes, "--json", "--quiet"],
                     deadline, lines.append)
    if code != 0:
        found.remark(f"nibble {name} ({size}): " + ("no time was left" if code is None else f"exit code {code}"))
        return
    result = json.loads("".join(lines))
    found.versions["nibble runs on"] = result["device_name"]
    for row in result["rows"]:
        found.add(size, f"{row['batch']}x{row['seq']}", name, row["ms"])


def run_peers(args, sizes, peers, deadline, found):
    missing = {(size, shape, peer) for size in sizes for shape in args.shapes.split(",") for peer in peers}

    def take(line):
        if not line.startswith("{"):  # what compilers say
            return
        row = json.loads(line)
        if "name" not in row:
            found.versions.update(row)
            return
        missing.discard((row["size"], row["shape"], row["name"]))
        label = f"{row['name']} ({row['size']}, {row['shape']})"
        if "error" in row:
            found.remark(f"{label}: {row['error']}")
            return
        found.add(row["size"], row["shape"], row["name"], row["ms"])
    command = [sys.executable, str(PEERS), "--sizes", ",".join(sizes), "--peers", ",".join(peers),
               "--shapes", args.shapes, "--seconds", str(args.pair_seconds)]
    code = run_lines(command, deadline, take)
    for size, shape, peer in sorted(missing):
        found.remark(f"{peer} ({size}, {shape}): " + ("no time was left" if code is None else f"exit code {code}"))


def cell(value, digits=3):
    return "-" if value is None else f"{value:.{digits}f}"


def print_table(found, size, names, peers, shapes):
    """Milliseconds, then how many times longer the peers take than each model of ours."""
    print(f"\nBERT-{size}, milliseconds")
    header = ["shape", *names, *peers]
    rows = [[shape, *(cell(found.median(size, shape, name)) for name in header[1:])] for shape in shapes]
    print_rows(header, rows)
    recorded = [peer for peer in peers if peer not in HUGGING_FACE]
    print(f"\nBERT-{size}, times faster than: eager / the better of eager and sdpa / the best of {', '.join(recorded)}")
    rows = []
    for shape in shapes:
        against = [found.best(size, shape, group) for group in (["eager"], HUGGING_FACE, recorded)]
        row = [shape]
        for name in names:
            ours = found.median(size, shape, name)
            row.append(" / ".join(cell(theirs / ours if theirs and ours else None, 2) for theirs in against))
        rows.append(row)
    print_rows(["shape", *names], rows)


def print_rows(header, rows):
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        print("  ".join(text.rjust(width) for text, width in zip(row, widths)))


def named_folder(text):
    name, _, folder = text.partition("=")
    if not name or not folder:
        raise argparse.ArgumentTypeError(f"{text}: NAME=FOLDER is wanted")
    return name, folder


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for size in ["base", "large"]:
        parser.add_argument("--" + size, type=named_folder, action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--program", default="build/release/nibble")
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--peers", default="eager,sdpa,graph")
    parser.add_argument("--compile", default="", help="compile, compile-graphs, compile-tuned; default: none")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=540, help="of all")
    parser.add_argument("--pair-seconds", type=float, default=0.5, help="of a pair of a peer")
    parser.add_argument("--json", type=pathlib.Path, help="also write the numbers of each round")
    return parser.parse_args()


def main() -> int:
    args = parse_arguments()
    models = {size: folders for size, folders in [("base", args.base), ("large", args.large)] if folders}
    if not models:
        print("encoder_peers: --base or --large NAME=FOLDER is wanted", file=sys.stderr)
        return 2
    deadline = time.monotonic() + args.seconds
    found = Measurements()
    peers = args.peers.split(",")
    for _ in range(args.rounds):
        for size, folders in models.items():
            for name, folder in folders:
                run_nibble(args, size, name, folder, deadline, found)
        run_peers(args, list(models), peers, deadline, found)
    compiled = [mode for mode in args.compile.split(",") if mode]
    for mode in compiled:
        run_peers(args, list(models), [mode], deadline, found)
    print(", ".join(f"{key} {value}" for key, value in found.versions.items()))
    for size, folders in models.items():
        print_table(found, size, [name for name, _ in folders], peers + compiled, args.shapes.split(","))
    for remark in found.remarks:
        print(remark)
    if args.json:
        rows = [{"size": size, "shape": shape, "name": name, "ms": statistics.median(values), "rounds": values}
                for (size, shape, name), values in found.rounds.items()]
        args.json.write_text(json.dumps({**found.versions, "rows": rows, "remarks": found.remarks}, indent=1) + "\n",
                             encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
