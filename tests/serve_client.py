"""A `nibble serve` of its own for a test, and what asks it. Only Python's own library."""
import asyncio
import json
import subprocess


async def open_request(port, method, path, body=None):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = json.dumps(body).encode() if body is not None else b""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    if data:
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    writer.write(head.encode() + b"\r\n" + data)
    await writer.drain()
    status = int((await reader.readline()).split()[1])
    chunked = False
    while (line := await reader.readline()) not in (b"\r\n", b""):
        chunked = chunked or line.lower().startswith(b"transfer-encoding: chunked")
    return reader, writer, status, chunked


async def chunks(reader, chunked):
    while chunked and (size := int(await reader.readline(), 16)) > 0:
        data = await reader.readexactly(size + 2)
        yield data[:-2]
    if not chunked:
        yield await reader.read()


async def fetch(port, method, path, body=None):
    reader, writer, status, chunked = await open_request(port, method, path, body)
    data = b"".join([part async for part in chunks(reader, chunked)])
    writer.close()
    return status, data


async def metrics(port):
    _, data = await fetch(port, "GET", "/metrics")
    values = {}
    for line in data.decode().splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            values[name.split("{")[0]] = float(value)
    return values


async def becomes_idle(port):
    """Waits until nothing runs, nothing waits and no page is in use; the metrics then."""
    for _ in range(200):
        values = await metrics(port)
        # Pages are counted at the end of a step, which may come after the answers.
        busy = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
        if all(values["nibble:" + name] == 0 for name in busy):
            return values
        await asyncio.sleep(0.05)
    raise AssertionError(f"the server does not become idle, or pages stay in use: {values}")


def run_served(words, test):
    """Runs `test(port, pid)` beside `nibble serve` with these words, which must end with 0."""
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline()
        assert line.startswith("Listening on http://"), line
        asyncio.run(test(int(line.rsplit(":", 1)[1]), server.pid))
    finally:
        server.terminate()
        try:
            code = server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            code = f"nothing in 60 s, and was killed ({server.wait()})"
        server.stdout.close()
    assert code == 0, f"the server ended with {code}"
