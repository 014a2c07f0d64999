"""What a front of several models does with OpenAI's requests: prefixes, places, errors, events."""
from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
from typing import Any, Iterable, Optional

from ._errors import CancelledError, NibbleError, OutOfMemoryError, UsageError

#: The routes that write text, and what LLM calls them.
TEXT_ROUTES = {"/v1/completions": "completions", "/v1/chat/completions": "chat/completions"}
HEALTH_ROUTES = ("/health", "/readyz")
MOST_BYTES = 8 << 20  #: of a body, as in `nibble serve`

_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
_FIRST_SERVER_ERROR = 500


@dataclasses.dataclass(eq=False)
class RouteError(Exception):
    """An answer that is an error, as OpenAI has it."""

    status: int
    message: str
    code: Optional[str] = None
    param: Optional[str] = None
    type: Optional[str] = None

    def body(self) -> dict[str, Any]:
        other = "server_error" if self.status >= _FIRST_SERVER_ERROR else "invalid_request_error"
        kind = self.type or _TYPES.get(self.status, other)
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def route_error(error: BaseException) -> RouteError:
    """What a client is told of a call that failed. What it did wrong is a 400; other errors say nothing of the
    machine."""
    if isinstance(error, RouteError):
        return error
    if isinstance(error, UsageError):
        message = str(error)
        return RouteError(400, message, "context_length_exceeded" if "this model's context holds" in message else None)
    if isinstance(error, OutOfMemoryError):
        return RouteError(503, "the server is out of memory; try again later")
    if isinstance(error, CancelledError):
        return RouteError(503, "the request was cancelled")
    if isinstance(error, NibbleError):
        return RouteError(500, "the request failed inside the server; its log says why")
    return RouteError(500, "the request failed inside the server")


def read_body(data: bytes, content_type: str) -> dict[str, Any]:
    """The object of a body."""
    if content_type.split(";")[0].strip().lower() != "application/json":
        raise RouteError(415, "the Content-Type must be application/json")
    if len(data) > MOST_BYTES:
        raise RouteError(413, f"the body has {len(data)} bytes; at most {MOST_BYTES} are taken")
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RouteError(400, f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RouteError(400, "the body must be a JSON object")
    return body


def check_model(body: dict[str, Any], name: str) -> None:
    asked = body.get("model")
    if isinstance(asked, str) and asked not in ("", name):
        raise RouteError(404, f"the model {asked[:100]!r} does not exist; this server has '{name}'", "model_not_found",
                         "model", "invalid_request_error")


def check_key(authorization: str, key: Optional[str]) -> None:
    """Bearer KEY, where there is a key."""
    if key is not None and not hmac.compare_digest(authorization.encode(), f"Bearer {key}".encode()):
        raise RouteError(401, "the API key is missing or wrong")


def model_list(name: str, created: int) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name, "object": "model", "created": created, "owned_by": "nibble"}]}


def prefix_of(body: dict[str, Any], characters: int) -> str:
    """What requests that may share computed prefixes have in common: a key of the first characters of what the model
    reads. Tools stand before messages in chat templates. Requests of different `cache_salt` share nothing."""
    reads = [body.get("cache_salt"), body.get("tools"), body.get("messages", body.get("prompt"))]
    return hashlib.sha256(json.dumps(reads)[:characters].encode()).hexdigest()


def places_for(key: str, names: Iterable[str]) -> list[str]:
    """Names of replicas, from the first that should get requests of a key to the last. A replica that comes or goes
    moves only the keys that it gets or had (rendezvous hashing; Thaler and Ravishankar, 1998)."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{key}/{name}".encode()).digest())


def event_text(event: dict[str, Any]) -> str:
    """A server-sent event."""
    return f"data: {json.dumps(event)}\n\n"


LAST_EVENT = "data: [DONE]\n\n"
