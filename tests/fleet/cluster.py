"""Two Ray nodes on this machine, and clients of an application there."""
import contextlib
import http.client
import json
import os
import pathlib
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
# Processes of Ray find the package and the library as this one does.
os.environ["PYTHONPATH"] = str(ROOT / "python")
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

PORT = 8123
TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"
DEMO = str(ROOT / "models/demo")


@contextlib.contextmanager
def two_nodes(cpus):
    """A cluster of two nodes with so many processors each, as Ray counts them."""
    small = {"num_cpus": cpus, "object_store_memory": 200 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
    try:
        cluster.add_node(**small)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
        assert len([node for node in ray.nodes() if node["Alive"]]) == 2
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


class Answer:
    def __init__(self, status, headers, text):
        self.status, self.text = status, text
        self.replica = headers.get("x-nibble-replica")
        self.events = [line[len("data: "):] for line in text.split("\n") if line.startswith("data: ")]

    @property
    def json(self):
        return json.loads(self.text)

    @property
    def written(self):
        """The text of a completion, or of its stream as far as it came."""
        objects = [json.loads(event) for event in self.events if event != "[DONE]"] if self.events else [self.json]
        return "".join(each["choices"][0]["text"] for each in objects if "choices" in each)

    @property
    def error(self):
        """What OpenAI calls an error, of an answer or of a stream; None where there is none."""
        objects = [json.loads(event) for event in self.events if event != "[DONE]"] if self.events else [self.json]
        return next((each["error"] for each in objects if "error" in each), None)


def ask(path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=300)
    data = None if body is None else json.dumps(body)
    kind = {} if body is None else {"Content-Type": "application/json"}
    connection.request("GET" if body is None else "POST", path, data, {**kind, **(headers or {})})
    with contextlib.closing(connection):
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read().decode())


def begin_stream(body, path="/v1/completions"):
    """Sends a request and reads its first event; what it returns reads the rest."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=300)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    first = answer.readline()

    def finish():
        with contextlib.closing(connection):
            return Answer(answer.status, answer.headers, (first + answer.read()).decode())

    return finish


def ask_all(bodies, path="/v1/completions"):
    """Answers to requests that are sent at the same time."""
    answers = [None] * len(bodies)

    def one(place):
        answers[place] = ask(path, bodies[place])

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def becomes(condition, seconds, what):
    """Waits; returns how long."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > seconds:
            raise AssertionError(f"after {seconds} s still not: {what}")
        time.sleep(0.1)
    return time.monotonic() - begin
