#!/usr/bin/env python3
"""The manifests of packaging/kubernetes against the server that they start: options, port, probes, metrics, time to end.

    tests/kubernetes_test.py NIBBLE MODEL

Reads what it needs of the files by their lines: Python has no YAML of its own. kubernetes_schema_test.py validates
them by schema.
"""
import asyncio
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

from serve_client import fetch, run_served

PROGRAM, MODEL = sys.argv[1:3]
ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "packaging/kubernetes"
SERVER = (FOLDER / "server.yaml").read_text()
SCALER = (FOLDER / "autoscale.yaml").read_text()
KEY = "the-key"


def values(text, name):
    """What stands behind `name:` anywhere."""
    return [value.strip().strip('"') for value in re.findall(rf"^[ -]*{name}: +([^\s&*].*)$", text, re.M)]


def number(text, name):
    (value,) = values(text, name)
    return int(value)


def option(words, name):
    return words[words.index(name) + 1]


ARGUMENTS = json.loads(values(SERVER, "args")[0])


def words_here():
    """The command of the container, for this machine: another model and port."""
    words = [PROGRAM, *ARGUMENTS]
    words[2] = MODEL
    words[words.index("--port") + 1] = "0"
    words[words.index("--threads") + 1] = "1"
    return words


class KubernetesTest(unittest.TestCase):
    def test_the_server_starts_and_answers_what_the_cluster_asks(self):
        os.environ["NIBBLE_API_KEY"] = KEY
        self.addCleanup(os.environ.pop, "NIBBLE_API_KEY")
        run_served(words_here(), self.check_routes)

    async def check_routes(self, port, _pid):
        probes = values(SERVER, "path")
        self.assertEqual(sorted(probes), ["/livez", "/readyz", "/readyz"])
        for path in probes:  # the kubelet sends no key
            self.assertEqual((await fetch(port, "GET", path))[0], 200, path)
        (metrics_path,) = values(SCALER, "path")
        self.assertEqual((await fetch(port, "GET", metrics_path))[0], 401)
        metrics = await self.fetch_with_key(port, metrics_path)
        (query,) = values(SCALER, "query")
        names = re.findall(r"nibble:\w+", query)
        self.assertEqual(len(names), 2)
        for name in names:
            self.assertRegex(metrics, rf"(?m)^# TYPE {name} gauge$")

    async def fetch_with_key(self, port, path):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode())
        text = (await reader.read()).decode()
        writer.close()
        self.assertIn(" 200 ", text.split("\r\n")[0])
        return text.replace("\r\n", "\n")

    def test_without_its_key_the_server_does_not_start(self):
        self.assertIn("name: NIBBLE_API_KEY", SERVER)
        environment = {name: value for name, value in os.environ.items() if name != "NIBBLE_API_KEY"}
        done = subprocess.run(words_here(), env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)

    def test_ports(self):
        self.assertEqual(str(number(SERVER, "containerPort")), option(ARGUMENTS, "--port"))
        self.assertEqual(option(ARGUMENTS, "--host"), "0.0.0.0")
        self.assertEqual(set(values(SERVER, "targetPort") + re.findall(r"path: \S+\n +port: (\w+)", SERVER)), {"http"})
        self.assertRegex(SCALER, r"- port: http\n +path: /metrics")

    def test_requests_under_way_have_their_time_to_end(self):
        drain = int(option(ARGUMENTS, "--shutdown-timeout"))
        self.assertGreaterEqual(number(SERVER, "terminationGracePeriodSeconds"), number(SERVER, "seconds") + drain + 5)

    def test_the_files_agree(self):
        self.assertRegex(SCALER, r"scaleTargetRef:\n +name: nibble\n")
        self.assertEqual(set(re.findall(r"app.kubernetes.io/name: (\w+)", SERVER + SCALER)), {"nibble"})
        self.assertLess(number(SCALER, "threshold"), int(option(ARGUMENTS, "--max-batch")))
        self.assertEqual(option(ARGUMENTS, "--threads"), values(SERVER, "cpu")[0])
        (image,) = values(SERVER, "image")
        version = re.search(r"project\(nibble VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
        self.assertEqual(image, f"nibble:{version}")
        user = re.search(r"--uid (\d+)", (ROOT / "Dockerfile").read_text()).group(1)
        self.assertEqual(values(SERVER, "runAsUser"), [user])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
