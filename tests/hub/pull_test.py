#!/usr/bin/env python3
"""`nibble pull`, and hf:ORG/NAME in other commands, against a hub of its own (hub_server.py).

    tests/hub/pull_test.py NIBBLE MODEL

Only Python's own library.
"""
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import unittest

from hub_server import COMMIT, Hub, checksum

PROGRAM, MODEL = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
NAMES = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
FILES = {name: (MODEL / name).read_bytes() for name in NAMES}
WEIGHTS = FILES["model.safetensors"]


class PullTest(unittest.TestCase):
    def setUp(self):
        self.files = dict(FILES)
        self.files |= {"pytorch_model.bin": b"pickle", "README.md": b"# card", "1_Pooling/config.json": b"{}"}
        self.hub = self.enterContext(Hub("org/name", self.files))
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.home = self.folder / "home"
        self.model = self.home / "hub/models--org--name"
        self.snapshot = self.model / "snapshots" / COMMIT
        self.blob = self.model / "blobs" / checksum("model.safetensors", WEIGHTS)
        self.part = self.blob.with_name(self.blob.name + ".incomplete")

    def nibble(self, *words, preexec_fn=None, **variables):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("HF_", "HUGGING", "XDG_")) and "proxy" not in name.lower()}
        environment |= {"HF_HOME": str(self.home), "HF_ENDPOINT": self.hub.url, **variables}
        return subprocess.run([PROGRAM, *words], env=environment, cwd=self.folder, capture_output=True, text=True,
                              timeout=120, preexec_fn=preexec_fn)

    def pulls(self, *words, **variables):
        result = self.nibble("pull", "org/name", *words, **variables)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def refuses(self, code, part, *words, **variables):
        result = self.nibble(*(words or ("pull", "org/name")), **variables)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn(part, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertEqual(result.stdout, "")

    def assertNothingShown(self):
        self.assertFalse(self.snapshot.exists() and any(self.snapshot.iterdir()))
        self.assertFalse((self.model / "refs/main").exists())

    def test_files_lie_as_huggingface_hub_lays_them(self):
        result = self.pulls()
        self.assertEqual(result.stdout, f"{self.snapshot}\n")
        self.assertEqual((self.model / "refs/main").read_text(), COMMIT)
        there = sorted(str(path.relative_to(self.snapshot)) for path in self.snapshot.rglob("*") if not path.is_dir())
        self.assertEqual(there, sorted([*NAMES, "1_Pooling/config.json"]))  # no pickle, no card
        for name in there:
            link = self.snapshot / name
            self.assertTrue(link.is_symlink())
            self.assertFalse(os.path.isabs(os.readlink(link)))
            self.assertEqual(link.read_bytes(), self.files[name])
            self.assertEqual(link.resolve().name, checksum(name, self.files[name]))
        self.assertEqual(list(self.model.glob("blobs/*.incomplete")), [])

    def test_a_second_pull_fetches_nothing(self):
        self.pulls()
        self.hub.requests.clear()
        answer = json.loads(self.pulls("--json").stdout)
        self.assertEqual([path for _, path, _, _ in self.hub.requests], ["/api/models/org/name/revision/main"])
        self.assertEqual((answer["downloaded_bytes"], answer["commit"], answer["path"]),
                         (0, COMMIT, str(self.snapshot)))
        self.assertEqual(answer["bytes"], sum(len(self.files[name]) for name in answer["files"]))

    def test_other_commands_take_models_of_the_hub(self):
        words = ["-p", "A library is", "-n", "4", "--temp", "0", "-q"]
        expected = self.nibble("run", str(MODEL.resolve()), *words).stdout
        self.refuses(5, "nibble pull org/name", "run", "org/name", *words)
        self.assertEqual(self.nibble("run", "hf:org/name", *words).stdout, expected)  # pulls
        self.hub.requests.clear()
        self.assertEqual(self.nibble("run", "hf:org/name", *words).stdout, expected)
        self.assertEqual(self.nibble("run", "org/name", *words).stdout, expected)
        self.assertEqual(self.nibble("run", f"hf:org/name@{COMMIT}", *words, HF_HUB_OFFLINE="1").stdout, expected)
        self.assertEqual(self.hub.requests, [])  # what is there needs no network
        (self.folder / "org/name").mkdir(parents=True)
        self.refuses(5, "config.json", "run", "org/name", *words)  # a folder of that name comes first
        self.assertGreater(len(expected), 4)

    def test_a_cut_download_goes_on_where_it_was(self):
        self.hub.cut_after = 1_000_000
        self.hub.cuts = 3
        self.pulls()
        ranges = [headers.get("Range") for headers in self.hub.sent_to_store()]
        self.assertEqual(ranges, [None, "bytes=1000000-", "bytes=2000000-", "bytes=3000000-"])
        self.assertEqual(self.blob.read_bytes(), WEIGHTS)

    def test_a_later_pull_goes_on_too(self):
        self.part.parent.mkdir(parents=True)
        self.part.write_bytes(WEIGHTS[:5_000_000])  # of a process that was killed
        self.pulls()
        self.assertEqual([headers.get("Range") for headers in self.hub.sent_to_store()], ["bytes=5000000-"])
        self.assertEqual(self.blob.read_bytes(), WEIGHTS)
        self.assertFalse(self.part.exists())

    def test_a_server_without_ranges_begins_again(self):
        self.part.parent.mkdir(parents=True)
        self.part.write_bytes(b"x" * 5000)
        self.hub.ranges = False
        self.pulls()
        self.assertEqual(self.blob.read_bytes(), WEIGHTS)

    def test_a_dead_store_is_one_line_and_keeps_what_came(self):
        self.hub.cut_after = 0
        self.part.parent.mkdir(parents=True)
        self.part.write_bytes(WEIGHTS[:7000])
        self.refuses(5, "model.safetensors of org/name", "pull", "org/name", "-q")
        self.assertEqual(self.part.read_bytes(), WEIGHTS[:7000])
        self.assertNothingShown()

    def test_wrong_bytes_are_removed(self):
        for changed in (bytes(len(WEIGHTS)), WEIGHTS[:-1] + bytes([WEIGHTS[-1] ^ 1])):
            self.hub.changed = {"model.safetensors": changed}
            self.refuses(6, "checksum")
            self.assertNothingShown()
            self.assertFalse(self.part.exists() or self.blob.exists())
        self.blob.with_name(checksum("config.json", FILES["config.json"])).unlink()  # which had come
        self.hub.changed = {"config.json": FILES["config.json"][:-1] + b" "}
        self.refuses(6, "config.json of org/name")
        self.assertNothingShown()

    def test_a_wrong_part_of_an_earlier_pull_is_found_out(self):
        self.part.parent.mkdir(parents=True)
        self.part.write_bytes(b"x" * 5000)
        self.refuses(6, "checksum")
        self.pulls()

    def test_a_full_disk_is_one_line(self):
        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))
        self.refuses(5, "cannot write", preexec_fn=small_files)
        self.assertNothingShown()
        self.pulls()
        self.assertIn("Range", self.hub.sent_to_store()[-1])  # what had come was kept

    def test_refusals_say_what_to_do(self):
        for status, code, part in ((401, "", "set HF_TOKEN"), (403, "", "HF_TOKEN has no right"),
                                   (404, "", "check the name"), (401, "GatedRepo", "ask for access"),
                                   (403, "GatedRepo", "ask for access"), (404, "RepoNotFound", "check the name"),
                                   (418, "", "status 418")):
            self.hub.refusal = (status, code)
            self.refuses(5, part)
        self.hub.refusal = None
        self.refuses(5, "no such revision", "pull", "org/name", "--revision", "none")
        self.refuses(5, "check the name", "pull", "org/other")
        self.refuses(2, "did you mean 'config.json'", "pull", "org/name", "--file", "confg.json")
        self.refuses(2, "is not the name of a model", "pull", "org/name/more")
        self.refuses(2, "HF_HUB_OFFLINE", HF_HUB_OFFLINE="1")
        self.refuses(2, "HF_ENDPOINT", HF_ENDPOINT="ftp://127.0.0.1")
        self.refuses(5, "cannot fetch org/name from 127.0.0.1:1", HF_ENDPOINT="http://127.0.0.1:1")
        self.assertNothingShown()

    def test_a_busy_hub_is_asked_again(self):
        self.hub.busy = 2
        self.pulls()

    def test_names_that_lead_out_are_refused(self):
        self.hub.more_names = ["../../evil.json"]
        self.refuses(3, "leads out of its folder")
        self.assertNothingShown()

    def test_pickles_are_refused(self):
        del self.files["model.safetensors"]
        self.refuses(3, "pickles")
        self.assertEqual([path for _, path, _, _ in self.hub.requests], ["/api/models/org/name/revision/main"])

    def test_one_file_and_a_revision(self):
        self.files["x.gguf"] = b"GGUF" * 100
        result = self.pulls("--file", "x.gguf", "--revision", "refs/pr/1")
        self.assertEqual(result.stdout, f"{self.snapshot / 'x.gguf'}\n")
        self.assertEqual((self.model / "refs/refs/pr/1").read_text(), COMMIT)
        self.assertEqual([path.name for path in self.snapshot.iterdir()], ["x.gguf"])

    def test_the_token_goes_to_the_hub_alone(self):
        self.hub.token = "hf_secret"
        self.refuses(5, "HF_TOKEN")
        self.refuses(5, "HF_TOKEN", HF_TOKEN="hf_other")
        self.home.mkdir(exist_ok=True)
        (self.home / "token").write_text("hf_secret\n")
        self.pulls()
        self.assertTrue(self.hub.sent_to_store())
        for headers in self.hub.sent_to_store():
            self.assertNotIn("Authorization", headers)
        (self.home / "token").unlink()
        self.pulls(HF_TOKEN="hf_secret", HF_HUB_CACHE=str(self.folder / "cache"))
        self.assertTrue((self.folder / "cache/models--org--name/snapshots" / COMMIT / "config.json").exists())

    def test_two_pulls_at_once(self):
        environment = {**os.environ, "HF_HOME": str(self.home), "HF_ENDPOINT": self.hub.url}
        both = [subprocess.Popen([PROGRAM, "pull", "org/name", "-q"], env=environment, stdout=subprocess.DEVNULL)
                for _ in range(2)]
        self.assertEqual([process.wait(120) for process in both], [0, 0])
        self.assertEqual(len(self.hub.sent_to_store()), 1)
        self.assertEqual(self.blob.read_bytes(), WEIGHTS)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
