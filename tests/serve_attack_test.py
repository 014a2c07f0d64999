#!/usr/bin/env python3
"""`nibble serve` under many attacks at once: clients that hang up, texts that are dear to encode, requests of thousands of
texts, readers that do not read, hostile patterns, malformed heads. A good client is answered all the while, with the texts
that it gets alone; nothing is answered with an internal error; and the memory comes back.

    tests/serve_attack_test.py NIBBLE MODEL [--seconds S] [--latency S] [--one-address] [--attack NAME ...]
                               [-- OPTION-OF-SERVE ...]

--latency is the longest that the good client may wait for an answer; the default is meant for a machine with two processors
and nothing else to do. Half of its answers come within 0.2 s in any case. Attackers have addresses of their own (127.0.0.2 and
on), or with --one-address the good client's. Only Python's own library. Prints what it saw as one line of JSON.
"""
import argparse
import asyncio
import collections
import http.client
import itertools
import json
import multiprocessing
import os
import random
import socket
import statistics
import struct
import sys
import time

from serve_client import becomes_idle, run_served

MEMORY_GROWTH = 1.05
MEDIAN_SECONDS = 0.2
PATIENCE = 20  # seconds for the memory to come back
WORDS = "The history of a river begins where water finds stone and every city that people build beside it".split()
# What an attack may be answered with, beside what it is meant to get: the client has too much, or the server has.
TOO_MUCH = {429, 503}


def text_of(size):
    generator = random.Random(3)
    return " ".join(generator.choice(WORDS) for _ in range(size // 5))[:size]


class Attacker:
    """One attack, in a process of its own."""

    def __init__(self, name, port, address, end, statuses):
        self.name, self.port, self.address, self.end, self.statuses = name, port, address, end, statuses

    def over(self):
        return time.monotonic() > self.end

    def wait(self, seconds):
        time.sleep(max(0.0, min(seconds, self.end - time.monotonic())))

    def connect(self, receive_buffer=0):
        client = socket.socket()
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.bind((self.address, 0))
        client.settimeout(30)
        client.connect(("127.0.0.1", self.port))
        return client

    def send(self, path, body, receive_buffer=0):
        """A request that was sent, or nothing where the server does not want it."""
        client = self.connect(receive_buffer)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            client.sendall(head.encode() + body)
        except OSError:
            client.close()
            return None
        return client

    def ask(self, path, body, expected):
        """Asks, and counts the status; an answer that is not expected ends the attack with an error."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60, source_address=(self.address, 0))
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json", "Host": "localhost"})
            answer = connection.getresponse()
            status, data = answer.status, answer.read()
        except OSError:  # refused while the body was sent
            return None
        finally:
            connection.close()
        self.count(status, expected, data)
        return status

    def count(self, status, expected, data=b""):
        self.statuses.put((self.name, status))
        assert status in expected or status in TOO_MUCH, f"{self.name}: status {status}: {data[:300]}"


def hang_up(attacker):
    """Eight texts of 4 MB at a time, whose clients do not wait for their tokens."""
    body = json.dumps({"prompt": text_of(4_000_000)}).encode()
    while not attacker.over():
        clients = [attacker.send("/tokenize", body) for _ in range(8)]
        for client in filter(None, clients):
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        attacker.wait(0.3)


def spaces(attacker):
    """A prompt far beyond the context, and one that is dear to encode."""
    prompt = json.dumps({"prompt": " " * 7_800_000}).encode()
    tokens = json.dumps({"content": " " * 2_000_000}).encode()
    while not attacker.over():
        attacker.ask("/v1/completions", prompt, {400})
        attacker.ask("/tokenize", tokens, {200})


def marks(attacker):
    """Characters that Unicode's normal forms must sort."""
    body = json.dumps({"content": "a" + "\u0301\u0323" * 50_000}).encode()
    while not attacker.over():
        attacker.ask("/tokenize", body, {200})


def many_embeddings(attacker):
    body = json.dumps({"input": ["the river and the stone"] * 2048}).encode()
    while not attacker.over():
        clients = [attacker.send("/v1/embeddings", body) for _ in range(2)]
        attacker.wait(4)
        for client in filter(None, clients):
            client.close()


def many_texts(attacker):
    request = {"prompt": ["Once upon a time", "The river"] * 8, "n": 16, "max_tokens": 32, "ignore_eos": True}
    body = json.dumps(request).encode()
    while not attacker.over():
        client = attacker.send("/v1/completions", body)
        attacker.wait(5)
        if client:
            client.close()


def read_slowly(attacker):
    """Six answers of more than ten times the size of their requests, of which a few bytes are taken."""
    body = json.dumps({"content": text_of(4_000_000), "with_pieces": True}).encode()
    clients = list(filter(None, [attacker.send("/tokenize", body, 4096) for _ in range(6)]))
    while clients and not attacker.over():
        attacker.wait(0.2)
        for client in list(clients):
            client.setblocking(False)
            try:
                if not client.recv(100):
                    clients.remove(client)
            except BlockingIOError:
                pass
            except OSError:
                clients.remove(client)
    for client in clients:
        client.close()


def hostile_patterns(attacker):
    fields = {"prompt": "a", "max_tokens": 8, "temperature": 0}
    nested = {"type": "array", "items": {"type": "array", "maxItems": 50, "items": {"type": "string", "maxLength": 200}}}
    requests = [
        {**fields, "guided_regex": "(.{1,100}){1,20}"},
        {**fields, "guided_regex": "((a|a)*){1,50}b"},
        {**fields, "guided_regex": "(.*.*.*){1,100}x"},
        {**fields, "grammar": "root ::= a a a a\na ::= (b | b b)*\nb ::= [a-z]{0,100} | root"},
        {**fields, "guided_json": nested},
    ]
    for body in itertools.cycle([json.dumps(request).encode() for request in requests]):
        if attacker.over():
            return
        attacker.ask("/v1/completions", body, {200, 400})


def malformed_heads(attacker):
    host = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    heads = ["Content-Length: 5\r\nContent-Length: 5\r\n", "Content-Length: 5, 5\r\n",
             "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Host: localhost\r\n", "Transfer-Encoding: gzip\r\n"]
    for head in itertools.cycle(heads):
        if attacker.over():
            return
        with attacker.connect() as client:
            client.sendall((host + head + "\r\nhello").encode())
            attacker.count(int(client.recv(4096).split()[1]), {400})
        attacker.wait(0.02)


ATTACKS = [hang_up, spaces, marks, many_embeddings, many_texts, read_slowly, hostile_patterns, malformed_heads]


def attack(function, port, address, end, statuses):
    os.nice(19)  # attackers have processors of their own, elsewhere
    attacker = Attacker(function.__name__, port, address, end, statuses)
    try:
        function(attacker)
    except (ConnectionError, TimeoutError) as error:
        if not attacker.over():
            statuses.put((attacker.name, type(error).__name__))
            sys.exit(1)


def resident(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fetch(port, path, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    assert answer.status == 200, f"the good client got {answer.status}: {data[:300]}"
    return json.loads(data)


def good_requests():
    for i in range(6):
        prompt = " ".join(WORDS[i : i + 4])
        yield "/v1/completions", {"prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": True}
    yield "/tokenize", {"content": " ".join(WORDS), "with_pieces": True}


def said(answer):
    """What must be the same each time."""
    return answer["choices"][0]["text"] if "choices" in answer else answer


def warm_up(port):
    """Whatever a server of any use has in memory: a KV cache that is full, buffers for long prompts and whole batches, the
    tables of grammars."""
    for i in range(32):
        fetch(port, "/v1/completions", {"prompt": f"{i} {text_of(2000)}", "max_tokens": 4, "temperature": 0})
    for _ in range(2):
        fetch(port, "/v1/completions", {"prompt": ["a", "b c"] * 8, "n": 2, "max_tokens": 32, "ignore_eos": True})
        fetch(port, "/v1/completions", {"prompt": "a", "max_tokens": 8, "guided_regex": "[a-z]{8}"})
        fetch(port, "/v1/embeddings", {"input": [text_of(2000)] * 8})
        fetch(port, "/tokenize", {"content": text_of(200_000), "with_pieces": True})


async def memory_returns(pid, before):
    for _ in range(PATIENCE * 10):
        if resident(pid) <= before * MEMORY_GROWTH:
            break
        await asyncio.sleep(0.1)
    return resident(pid)


async def run(port, pid):
    expected = [(path, body, said(fetch(port, path, body))) for path, body in good_requests()]
    warm_up(port)
    await becomes_idle(port)
    await asyncio.sleep(2)
    before = resident(pid)
    statuses = multiprocessing.Queue()
    end = time.monotonic() + OPTIONS.seconds
    attackers = []
    for number, function in enumerate(f for f in ATTACKS if f.__name__ in OPTIONS.attack):
        address = "127.0.0.1" if OPTIONS.one_address else f"127.0.0.{number + 2}"
        process = multiprocessing.Process(target=attack, args=(function, port, address, end, statuses),
                                          daemon=True)
        process.start()
        attackers.append(process)
    seconds, peak = [], before
    for path, body, text in itertools.cycle(expected):
        begin = time.monotonic()
        if begin > end:
            break
        answer = said(fetch(port, path, body))
        seconds.append(time.monotonic() - begin)
        assert answer == text, f"{path} {body}: {answer!r} instead of {text!r}"
        peak = max(peak, resident(pid))
        await asyncio.sleep(0.05)
    counts = collections.Counter()
    while any(process.is_alive() for process in attackers) or not statuses.empty():
        while not statuses.empty():
            counts["{} {}".format(*statuses.get())] += 1
        await asyncio.sleep(0.05)
    assert all(process.exitcode == 0 for process in attackers), [p.exitcode for p in attackers]
    await becomes_idle(port)
    after = await memory_returns(pid, before)
    print(json.dumps({"requests": len(seconds), "median_s": round(statistics.median(seconds), 3),
                      "longest_s": round(max(seconds), 3), "attacks": dict(sorted(counts.items())),
                      "resident_mb": {"before": before >> 20, "peak": peak >> 20, "after": after >> 20}}))
    assert statistics.median(seconds) <= MEDIAN_SECONDS, f"half of the answers took {statistics.median(seconds):.3f} s or more"
    assert max(seconds) <= OPTIONS.latency, f"the good client waited {max(seconds):.3f} s"
    assert after <= before * MEMORY_GROWTH, f"{after} bytes are held, {before} were before"


parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("model")
parser.add_argument("--seconds", type=float, default=10)
parser.add_argument("--latency", type=float, default=MEDIAN_SECONDS)
parser.add_argument("--one-address", action="store_true")
parser.add_argument("--attack", nargs="+", choices=[function.__name__ for function in ATTACKS],
                    default=[function.__name__ for function in ATTACKS])
parser.add_argument("options", nargs="*")
OPTIONS = parser.parse_args()
run_served([OPTIONS.program, "serve", OPTIONS.model, "--port", "0", "-q", "--memory", "8MiB", "--max-batch", "8",
            *OPTIONS.options], run)
