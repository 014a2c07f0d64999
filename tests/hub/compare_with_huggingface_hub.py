#!/usr/bin/env python3
"""Caches of Nibble and of huggingface_hub: what one made the other reads, and neither fetches it again.

Run by hand, in a virtual environment with huggingface_hub:

    python3 tests/hub/compare_with_huggingface_hub.py NIBBLE MODEL
"""
import os
import pathlib
import subprocess
import sys
import tempfile

from hub_server import COMMIT, Hub, checksum

PROGRAM, MODEL = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
FILES = {name: (MODEL / name).read_bytes() for name in ("config.json", "model.safetensors", "tokenizer.json")}
FILES["1_Pooling/config.json"] = b"{}"
WITH_PYTHON = "from huggingface_hub import snapshot_download; print(snapshot_download('org/name'))"


def tree(folder):
    """Names below a folder with what links lead to and what files hold; without locks and marks, which only one may write."""
    entries = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() or name.startswith(".locks") or path.name in ("CACHEDIR.TAG", ".no_exist") or "/trees/" in name:
            continue
        entries[name] = os.readlink(path) if path.is_symlink() else path.read_bytes()
    return entries


def run(words, home, url):
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    environment |= {"HF_HOME": str(home), "HF_ENDPOINT": url, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    return subprocess.run(words, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


with Hub("org/name", FILES) as hub, tempfile.TemporaryDirectory() as scratch:
    nibble, python = [PROGRAM, "pull", "org/name", "-q"], [sys.executable, "-c", WITH_PYTHON]
    homes = {}
    for label, first, second in (("nibble", nibble, python), ("huggingface_hub", python, nibble)):
        home = homes[label] = pathlib.Path(scratch) / label
        made = run(first, home, hub.url)
        homes[label, "tree"] = tree(home / "hub")
        assert hub.sent_to_store(), f"{label} fetched nothing"
        hub.requests.clear()
        assert run(second, home, hub.url) == made, "the two name different folders"
        assert not hub.sent_to_store(), f"what {label} fetched was fetched again"
        assert tree(home / "hub") == homes[label, "tree"], f"the other changed what {label} made"
        print(f"{label}: {len(homes[label, 'tree'])} entries; the other reads them")
    assert homes["nibble", "tree"] == homes["huggingface_hub", "tree"], "the two lay the cache out differently"

    # What huggingface_hub left when it was killed (versions before 2 keep the name of the part).
    weights = FILES["model.safetensors"]
    blobs = pathlib.Path(scratch) / "cut/hub/models--org--name/blobs"
    blobs.mkdir(parents=True)
    (blobs / (checksum("model.safetensors", weights) + ".incomplete")).write_bytes(weights[:1_000_000])
    hub.requests.clear()
    run(nibble, pathlib.Path(scratch) / "cut", hub.url)
    assert [headers.get("Range") for headers in hub.sent_to_store()] == ["bytes=1000000-"]
    print(f"equal caches at commit {COMMIT[:12]}; parts are continued")
