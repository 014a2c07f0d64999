"""What scripts that measure servers share: random models, and loads that wait until a server has read its model."""
import json
import pathlib
import shutil
import subprocess
import sys
import time


def write_random_model(folder, tokenizer, scheme, *sizes):
    """A model of random_model.py in a folder that is made anew; its output layer has 16 bits where the others have."""
    shutil.rmtree(folder, ignore_errors=True)
    output = "bf16" if scheme == "bf16" else "int8-sym-row"
    subprocess.run([sys.executable, pathlib.Path(__file__).with_name("random_model.py"), folder, "--tokenizer", tokenizer,
                    "--scheme", scheme, "--output", output, *sizes], check=True)


def run_json(words, limit):
    """The JSON that a command prints, and what it says on stderr; None where it fails or takes longer than `limit` seconds."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=max(5, limit))
        return (json.loads(done.stdout) if done.returncode == 0 else None), done.stderr
    except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        return None, str(error)


def load(nibble, server, port, clients, lengths, requests, limit):
    """The JSON of `nibble bench-serve` (lengths: IN:OUT or atom) against a server's process; None where it never answers."""
    words = [nibble, "bench-serve", f"http://127.0.0.1:{port}", "--requests", str(requests), "--concurrency", str(clients),
             "--json", "-q"]
    if lengths == "atom":
        words += ["--lengths", "atom", "--longest", "2048"]
    else:
        words += ["--input-len", lengths.split(":")[0], "--output-len", lengths.split(":")[1]]
    until = time.monotonic() + limit
    result = None
    while result is None and time.monotonic() < until and server.poll() is None:
        time.sleep(1)  # until the model is read
        result, _ = run_json(words, until - time.monotonic())
    return result
