#!/usr/bin/env python3
"""Many streams at once against `nibble serve`, some of them cut off at random: every text must be the one that its prompt
gives alone, and when all is quiet no page of the KV cache is in use and no memory was lost.

    tests/serve_load_test.py NIBBLE MODEL [STREAMS [SECONDS [OPTION-OF-SERVE ...]]]

Only Python's own library. Prints what it saw as one line of JSON.
"""
import asyncio
import json
import os
import random
import sys
import time

from serve_client import becomes_idle, chunks, fetch, open_request, run_served

PROGRAM, MODEL = sys.argv[1:3]
STREAMS = int(sys.argv[3]) if len(sys.argv) > 3 else 24
SECONDS = float(sys.argv[4]) if len(sys.argv) > 4 else 4
OPTIONS = sys.argv[5:]
CANCELLED = 0.2
WORDS = "The history of a river begins where water finds stone and every city that people build beside it".split()
# More memory than this may not be held at the end than after the warm-up.
GROWTH = 24 << 20


def prompts():
    """Some share their beginnings, so that prefixes are found; lengths differ."""
    generator = random.Random(5)
    result = []
    for i in range(30):
        start = " ".join(WORDS[: 4 + i % 12]) * (1 + i % 4)
        rest = " ".join(generator.choice(WORDS) for _ in range(generator.randrange(1, 40)))
        result.append({"prompt": start + " " + rest, "max_tokens": generator.randrange(1, 80)})
    return result


async def stream(port, body, cut_after):
    """The text of a stream, or None when it was cut off after so many events."""
    reader, writer, status, chunked = await open_request(port, "POST", "/v1/completions", {**body, "stream": True})
    assert status == 200, status
    text, rest, events, done = "", b"", 0, False
    async for part in chunks(reader, chunked):
        rest += part
        *whole, rest = rest.split(b"\n\n")
        for event in whole:
            if event == b"data: [DONE]":
                done = True
            elif event.startswith(b"data: "):
                value = json.loads(event[6:].decode("utf-8", "strict"))
                assert "error" not in value, value
                text += value["choices"][0]["text"]
                events += 1
        if cut_after is not None and events >= cut_after:
            writer.transport.abort()
            return None
    writer.close()
    assert done, "the stream ended without [DONE]"
    return text


def resident(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def run(port, pid):
    common = {"temperature": 0, "ignore_eos": True}
    asked = [{**prompt, **common} for prompt in prompts()]
    expected = []
    for body in asked:
        status, data = await fetch(port, "POST", "/v1/completions", body)
        assert status == 200, data
        expected.append(json.loads(data)["choices"][0]["text"])
    generator = random.Random(7)
    counts = {"served": 0, "cut": 0}
    start = time.monotonic()

    async def client():
        while time.monotonic() - start < SECONDS:
            i = generator.randrange(len(asked))
            cut = generator.randrange(0, 20) if generator.random() < CANCELLED else None
            text = await stream(port, asked[i], cut)
            if text is None:
                counts["cut"] += 1
            else:
                assert text == expected[i], f"{asked[i]}: {text!r} instead of {expected[i]!r}"
                counts["served"] += 1

    async def warm_memory():
        await asyncio.sleep(SECONDS / 3)
        return resident(pid)

    results = await asyncio.gather(warm_memory(), *[client() for _ in range(STREAMS)])
    values = await becomes_idle(port)
    growth = resident(pid) - results[0]
    assert counts["served"] > 0 and counts["cut"] > 0, counts
    assert growth < GROWTH, f"{growth} bytes more than after a third of the time"
    print(json.dumps({**counts, "streams": STREAMS, "seconds": SECONDS, "resident_after_a_third": results[0],
                      "growth": growth, "preemptions": values["nibble:num_preemptions_total"],
                      "prefix_hits": values["nibble:prefix_cache_hits_total"],
                      "generated_tokens": values["nibble:generation_tokens_total"]}))


run_served([PROGRAM, "serve", MODEL, "--port", "0", "-q", "--max-queue", str(2 * STREAMS), *OPTIONS], run)
