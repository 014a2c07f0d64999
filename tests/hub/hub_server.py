"""A small Hugging Face hub for tests: its API of revisions, its addresses of files with redirects, and a store behind it.

As on the hub, large files (safetensors) are named by their SHA-256 and lie on another server (here another port),
small ones by git's SHA-1 behind a redirect on the same server. Only Python's own library.
"""
import hashlib
import http.server
import json
import re
import threading
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def checksum(name, data):
    if name.endswith((".safetensors", ".gguf")):
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub = self.server.hub
        hub.requests.append((self.command, self.path, dict(self.headers), self.server is hub.store))
        if self.server is hub.store:
            return self.serve_bytes(urllib.parse.unquote(self.path[1:]))
        if hub.busy > 0:
            hub.busy -= 1
            return self.answer(503)
        if hub.refusal:
            status, code = hub.refusal
            return self.answer(status, **({"X_Error_Code": code} if code else {}))
        if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            return self.answer(401, X_Error_Code="RepoNotFound")
        path = urllib.parse.unquote(self.path.split("?")[0])
        if found := re.fullmatch(r"/api/models/(\w+/\w+)/revision/(.+)", path):
            return self.serve_list(*found.groups())
        if found := re.fullmatch(r"/api/models/(\w+/\w+)/tree/(.+)", path):
            return self.serve_tree()
        if found := re.fullmatch(r"/(\w+/\w+)/resolve/([^/]+)/(.+)", path):
            return self.serve_resolve(*found.groups())
        if path.startswith("/api/resolve-cache/"):
            return self.serve_bytes(path.removeprefix("/api/resolve-cache/"), X_Repo_Commit=COMMIT)
        return self.answer(404, X_Error_Code="RepoNotFound")

    def serve_list(self, name, revision):
        hub = self.server.hub
        if name != hub.name:
            return self.answer(404, X_Error_Code="RepoNotFound")
        if revision not in ("main", "refs/pr/1", COMMIT):
            return self.answer(404, X_Error_Code="RevisionNotFound")
        siblings = [{"rfilename": file} for file in [*hub.files, *hub.more_names]]
        body = json.dumps({"id": name, "sha": COMMIT, "siblings": siblings}).encode()
        return self.answer(200, body, Content_Type="application/json")

    def serve_tree(self):  # which huggingface_hub asks for
        entries = []
        for file, data in self.server.hub.files.items():
            entry = {"type": "file", "path": file, "size": len(data), "oid": checksum("git", data)}
            if file.endswith((".safetensors", ".gguf")):
                entry["lfs"] = {"oid": checksum(file, data), "size": len(data), "pointerSize": 134}
            entries.append(entry)
        return self.answer(200, json.dumps(entries).encode(), Content_Type="application/json")

    def serve_resolve(self, name, revision, file):
        hub = self.server.hub
        if name != hub.name or revision not in ("main", COMMIT) or file not in hub.files:
            return self.answer(404, X_Error_Code="EntryNotFound")
        data = hub.files[file]
        if not file.endswith((".safetensors", ".gguf")):
            return self.answer(307, Location=f"/api/resolve-cache/{urllib.parse.quote(file)}", X_Repo_Commit=COMMIT)
        return self.answer(302, Location=f"http://127.0.0.1:{hub.store.server_port}/{urllib.parse.quote(file)}",
                           X_Linked_Etag=f'"{checksum(file, data)}"', X_Linked_Size=str(len(data)), X_Repo_Commit=COMMIT,
                           ETag='"of-the-redirect"')

    def serve_bytes(self, file, **headers):
        hub = self.server.hub
        data = hub.files[file]
        sent = hub.changed.get(file, data)
        begin = 0
        if hub.ranges and (found := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))):
            begin = int(found.group(1))
            headers["Content_Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        body = sent[begin:]
        headers["ETag"] = f'"{checksum(file, data)}"'
        if self.server is hub.store and hub.cut_after is not None and self.command == "GET" and hub.cuts > 0:
            hub.cuts -= 1
            self.answer(206 if begin else 200, body[:hub.cut_after], Content_Length=str(len(body)), **headers)
            self.close_connection = True
            return
        self.answer(206 if begin else 200, body, **headers)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # a client that went away


class Hub:
    """`with Hub("org/name", {"config.json": b"{}"}) as hub:` serves at hub.url until the end of the block."""

    def __init__(self, name, files):
        self.name = name
        self.files = files
        self.more_names = []    # that the list has too
        self.changed = {}       # bytes that are sent instead
        self.requests = []      # (method, path, headers, whether to the store)
        self.token = None       # that must be sent
        self.refusal = None     # (status, X-Error-Code) of all answers
        self.busy = 0           # answers of status 503 before the first good one
        self.ranges = True
        self.cut_after = None   # bytes after which the store's next `cuts` connections break
        self.cuts = 10 ** 9

    def __enter__(self):
        self.front, self.store = (Server(("127.0.0.1", 0), Handler) for _ in range(2))
        for server in (self.front, self.store):
            server.hub = self
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.front.server_port}"
        return self

    def __exit__(self, *_):
        for server in (self.front, self.store):
            server.shutdown()
            server.server_close()

    def sent_to_store(self):
        return [headers for method, _, headers, store in self.requests if store and method == "GET"]
