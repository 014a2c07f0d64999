#!/usr/bin/env python3
"""nibble.ray_serve on two local Ray nodes. Not part of the quick tests: Ray is large.

    pip install 'ray[serve,data]'
    NIBBLE_LIBRARY=build/release/lib/libnibble.so tests/fleet/ray_serve_test.py

Prints what it measured, as docs/experiments/fleet.md has it.
"""
import collections
import http.client
import json
import os
import signal
import threading
import time
import unittest

from cluster import DEMO, PORT, TEMPLATE, ask, ask_all, becomes, begin_stream, two_nodes

from nibble import LLM
from nibble.ray_serve import Settings, build
import ray
from ray import serve

GREEDY = {"max_tokens": 12, "temperature": 0}
LONG = {"max_tokens": 300, "temperature": 0, "ignore_eos": True}
APPLICATION = "nibble"


def settings(**fields):
    return Settings(model=DEMO, chat_template=TEMPLATE, **{"min_replicas": 2, "max_replicas": 2, **fields})


def start(**fields):
    serve.run(build(settings(**fields)), name=APPLICATION)
    becomes(lambda: ask("/health").status == 200, 60, "health is 200")


def replicas():
    """Replica -> its actor's state (pid, node_id)."""
    details = serve.status().applications[APPLICATION].deployments["Model"].replica_states
    actors = ray._private.state.actors()
    found = {actor["Name"].split("#")[-1]: actor for actor in actors.values()
             if "#Model#" in actor["Name"] and actor["State"] == "ALIVE"}
    return found if len(found) == details.get("RUNNING", 0) else {}


def prompts_of(replica, count):
    """Prompts that go to a replica."""
    found = []
    for number in range(1000):
        prompt = f"{number} is a number. Once upon a time"
        if ask("/v1/completions", {"prompt": prompt, "max_tokens": 1}).replica == replica:
            found.append(prompt)
        if len(found) == count:
            return found
    raise AssertionError(f"{replica} gets no requests")


class RayServeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(two_nodes(4))
        serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": PORT})
        cls.addClassCleanup(serve.shutdown)
        cls.llm = cls.enterClassContext(LLM(DEMO, "cpu", threads=1, chat_template=TEMPLATE))

    def test_1_replicas_are_on_both_nodes_and_answers_are_those_of_one_process(self):
        start()
        nodes = {actor["Address"]["NodeID"] for actor in replicas().values()}
        self.assertEqual(len(nodes), 2)
        bodies = [{"prompt": f"Story {i}. Once upon a time", **GREEDY} for i in range(24)]
        answers = ask_all(bodies)
        self.assertEqual([each.status for each in answers], [200] * 24)
        alone = [self.llm.create_completion(**body) for body in bodies]
        self.assertEqual([each.json["choices"] for each in answers], [each["choices"] for each in alone])
        self.assertEqual([each.json["usage"]["total_tokens"] for each in answers],
                         [each["usage"]["total_tokens"] for each in alone])
        used = collections.Counter(each.replica for each in answers)
        self.assertEqual(len(used), 2)
        print("24 requests at once, by replica:", sorted(used.values()))

    def test_2_streams(self):
        start()
        chat = {"messages": [{"role": "user", "content": "Once upon a time"}], **GREEDY}
        plain = self.llm.create_chat_completion(**chat)["choices"][0]["message"]["content"]
        for answer in ask_all([{**chat, "stream": True}] * 4, "/v1/chat/completions"):
            self.assertEqual(answer.status, 200)
            self.assertEqual(answer.events[-1], "[DONE]")
            deltas = [json.loads(event)["choices"][0]["delta"] for event in answer.events[:-1]]
            self.assertGreater(len(deltas), 6)
            self.assertEqual("".join(delta.get("content") or "" for delta in deltas), plain)
        self.first_comes_before_last()

    def first_comes_before_last(self):
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=300)
        begin = time.monotonic()
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "Once", "stream": True, **LONG}),
                           {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.readline()
        first = time.monotonic() - begin
        answer.read()
        last = time.monotonic() - begin
        connection.close()
        print(f"a stream of 300 tokens: first event after {first:.3f} s, last after {last:.3f} s")
        self.assertLess(first, last / 2)

    def test_3_errors_and_other_routes(self):
        start()
        for path, body, status, code in (("/v1/completions", {"prompt": "a", "model": "x"}, 404, "model_not_found"),
                                         ("/v1/completions", {"prompt": 3}, 400, None),
                                         ("/v1/completions", {"prompt": 3, "stream": True}, 400, None),
                                         ("/v1/completions", {"prompt": "a " * 5000}, 400, "context_length_exceeded"),
                                         ("/v1/chat/completions", {"messages": []}, 400, None),
                                         ("/v1/nothing", {}, 404, None), ("/v1/completions", None, 405, None)):
            answer = ask(path, body)
            self.assertEqual((answer.status, answer.error["code"]), (status, code), answer.text)
        self.assertEqual(ask("/v1/models").json["data"][0]["id"], "demo")
        self.assertEqual([ask(path).status for path in ("/health", "/readyz", "/livez")], [200] * 3)

    def test_4_one_prefix_one_replica(self):
        start()
        systems = [f"You are clerk number {i}. " * 20 for i in range(8)]
        places = []
        for system in systems:
            chats = [{"messages": [{"role": "system", "content": system}, {"role": "user", "content": str(i)}],
                      **GREEDY} for i in range(6)]
            answers = [ask("/v1/chat/completions", chat) for chat in chats]
            self.assertEqual(len({each.replica for each in answers}), 1)
            cached = [each.json["usage"]["prompt_tokens_details"]["cached_tokens"] for each in answers]
            self.assertEqual(cached[0], 0)
            self.assertTrue(all(tokens > 60 for tokens in cached[1:]), cached)
            places.append(answers[0].replica)
        self.assertEqual(len(set(places)), 2)
        print("8 prefixes by replica:", sorted(collections.Counter(places).values()), "cached tokens:", cached)
        bodies = [{"prompt": f"{system} {i}", **GREEDY} for system in systems for i in range(6)]
        crowd = ask_all(bodies)
        same = sum(max(collections.Counter(each.replica for each in crowd[i:i + 6]).values()) for i in range(0, 48, 6))
        print(f"48 requests at once, 6 of each prefix: {same} went where most of their prefix did")

    def test_5_a_client_that_leaves_ends_its_request(self):
        start(min_replicas=1, max_replicas=1)
        for streams in (True, False):
            begin = time.monotonic()
            ask("/v1/completions", {"prompt": "Once", **LONG, "n": 16})
            whole = time.monotonic() - begin
            connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=300)
            connection.request("POST", "/v1/completions",
                               json.dumps({"prompt": "Twice", **LONG, "n": 16, "stream": streams}),
                               {"Content-Type": "application/json"})
            time.sleep(whole / 10)
            connection.close()
            begin = time.monotonic()
            self.assertEqual(ask("/v1/completions", {"prompt": "A", "max_tokens": 1}).status, 200)
            waited = time.monotonic() - begin
            print(f"{'a stream' if streams else 'an answer'} of {whole:.2f} s was left after a tenth of it; "
                  f"the next request took {waited:.2f} s")
            self.assertLess(waited, whole / 2)

    def test_6_a_killed_replica_loses_only_its_own(self):
        start()
        here, there = sorted(replicas())
        lost, kept = prompts_of(here, 6), prompts_of(there, 6)
        pid = replicas()[here]["Pid"]
        bodies = [{"prompt": prompt, **LONG, "seed": 1, "stream": i % 2 == 0} for i, prompt in enumerate(lost + kept)]
        bodies[0]["max_tokens"] = 900
        finish = begin_stream(bodies[0])
        killer = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
        killer.start()
        answers = ask_all(bodies[1:])
        killer.join()
        answers.insert(0, finish())
        failed = [answer for answer in answers if answer.error]
        print(f"killed with {len(lost)} requests of its own under way or waiting: {len(failed)} of them failed, "
              f"{sum(bool(each.events) for each in failed)} as the last event of a stream; "
              f"{sum(each.error is None for each in answers[len(lost):])} of {len(kept)} others were answered")
        self.assertTrue(answers[0].error and answers[0].written)  # it had begun
        for answer in answers[len(lost):]:
            self.assertEqual((answer.status, answer.error), (200, None))
        alone = [self.llm.create_completion(**{**body, "stream": False})["choices"][0]["text"] for body in bodies]
        for answer, text in zip(answers, alone):  # nothing is written twice, nothing is left out
            if answer.error is None:
                self.assertEqual(answer.written, text)
            else:
                self.assertTrue(text.startswith(answer.written), (answer.written, text))
        for answer in failed:
            self.assertIn("the replica that had the request ended; send it again", answer.error["message"])
            self.assertEqual(answer.error["type"], "server_error")
            self.assertEqual(answer.status, 200 if answer.events else 503)
            if answer.events:
                self.assertEqual(answer.events[-1], "[DONE]")
        again = ask_all([{"prompt": prompt, **GREEDY} for prompt in lost])
        self.assertEqual([each.status for each in again], [200] * len(lost))
        seconds = becomes(lambda: len(replicas()) == 2 and here not in replicas(), 60, "two replicas")
        print(f"its requests were answered by the other at once; a new replica ran {seconds:.1f} s later")

    def test_7_a_queue_adds_replicas_and_its_end_removes_them(self):
        start(min_replicas=1, max_replicas=3, target_ongoing=2, upscale_delay_s=1, downscale_delay_s=3)
        becomes(lambda: len(replicas()) == 1, 90, "one replica")
        ends = threading.Event()
        statuses = collections.Counter()

        def load(number):
            i = 0
            while not ends.is_set():
                i += 1
                answer = ask("/v1/completions", {"prompt": f"{number} {i} Once", **LONG, "seed": i})
                statuses[answer.status] += 1

        threads = [threading.Thread(target=load, args=(i,)) for i in range(10)]
        for thread in threads:
            thread.start()
        try:
            up = becomes(lambda: len(replicas()) == 3, 120, "three replicas")
        finally:
            ends.set()
            for thread in threads:
                thread.join()
        down = becomes(lambda: len(replicas()) == 1, 120, "one replica again")
        print(f"10 clients: 1 to 3 replicas in {up:.1f} s, back to 1 {down:.1f} s after the end; {dict(statuses)}")
        self.assertEqual(set(statuses), {200})

    def test_8_a_full_queue_is_429(self):
        start(min_replicas=1, max_replicas=1, max_ongoing=1, max_queued=2)
        answers = ask_all([{"prompt": f"{i}", **LONG, "seed": i} for i in range(8)])
        found = collections.Counter(each.status for each in answers)
        print("8 requests, room for 1 and 2 that wait:", dict(found))
        self.assertEqual(set(found), {200, 429})
        refused = next(each for each in answers if each.status == 429)
        self.assertEqual(refused.error["type"], "rate_limit_error")

    def test_9_a_key(self):
        os.environ["NIBBLE_API_KEY"] = "secret"
        try:
            start()
        finally:
            del os.environ["NIBBLE_API_KEY"]
        self.assertEqual(ask("/v1/models").status, 401)
        self.assertEqual(ask("/v1/models", headers={"Authorization": "Bearer secret"}).status, 200)


if __name__ == "__main__":
    unittest.main(verbosity=2)
