#!/usr/bin/env python3
"""Crowds at the door of `nibble serve`: clients that send a byte now and then, clients that send nothing, clients that come
and go. Others must be answered all the while, and nothing may be left behind.

    tests/serve_crowd_test.py NIBBLE MODEL

Only Python's own library.
"""
import asyncio
import json
import random
import resource
import sys
import time

from serve_client import becomes_idle, run_served

PROGRAM, MODEL = sys.argv[1:3]
SLOW = 500
IDLE = 2000
STORM = 300  # connections, 100 in a second
BODY = json.dumps({"prompt": "The memory bus", "max_tokens": 200, "ignore_eos": True, "stream": True}).encode()
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


async def connect(port):
    return await asyncio.open_connection("127.0.0.1", port)


async def health(port):
    """Seconds until /health answers on a connection of its own."""
    start = time.monotonic()
    reader, writer = await connect(port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    line = await asyncio.wait_for(reader.readline(), 10)
    writer.close()
    assert line.startswith(b"HTTP/1.1 200"), line
    return time.monotonic() - start


# Row 21 of the list of bad inputs: slow heads and slow bodies.
async def slow_clients(port):
    writers = []
    for i in range(SLOW):
        _, writer = await connect(port)
        writer.write(HEAD[: 20 + i % 30] if i % 2 else HEAD + b"Content-Length: 1000\r\n\r\n{")
        writers.append(writer)
    worst = 0.0
    for _ in range(10):
        for writer in random.sample(writers, 50):
            writer.write(b" ")
        worst = max(worst, await health(port))
    for writer in writers:
        writer.transport.abort()
    return worst


# Row 22: idle connections, more of them than the server keeps.
async def idle_clients(port):
    writers = [(await connect(port))[1] for _ in range(IDLE)]
    worst = max([await health(port) for _ in range(5)])
    for writer in writers:
        writer.transport.abort()
    return worst


# Row 38: requests that come and are dropped, 100 in a second.
async def storm(port):
    async def one(i):
        await asyncio.sleep(i / 100)
        _, writer = await connect(port)
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY)
        await asyncio.sleep(random.random() * 0.1)
        writer.transport.abort()

    clients = asyncio.gather(*[one(i) for i in range(STORM)])
    worst = 0.0
    while not clients.done():
        worst = max(worst, await health(port))
        await asyncio.sleep(0.1)
    await clients
    await becomes_idle(port)
    return worst


async def run(port, _):
    seen = {}
    for crowd in (slow_clients, idle_clients, storm):
        seen[crowd.__name__] = round(await crowd(port), 3)
        assert seen[crowd.__name__] < 5, f"{crowd.__name__}: others waited {seen[crowd.__name__]} s"
    print(json.dumps({"longest wait of others, in seconds": seen}))


def main():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = IDLE + 200
    if hard != resource.RLIM_INFINITY and hard < needed:
        print(f"only {hard} files may be open")
        sys.exit(77)
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    run_served([PROGRAM, "serve", MODEL, "--port", "0", "-q", "--threads", "1"], run)


main()
