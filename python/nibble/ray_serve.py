"""A fleet of models behind OpenAI's API, on Ray Serve (2.60): docs/fleet.md.

    serve run nibble.ray_serve:build model=/models/llama-w4 max_replicas=4
"""
from __future__ import annotations

import asyncio
import os
import time
from typing import Any, AsyncIterator, Optional

try:
    import pydantic
    from ray import serve
    from ray.exceptions import RayActorError, TaskCancelledError
    from ray.serve.config import AutoscalingConfig, RequestRouterConfig
    from ray.serve.exceptions import (BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError,
                                      RequestCancelledError)
    from ray.serve.handle import DeploymentHandle
    from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
except ImportError as error:
    raise ImportError(f"nibble.ray_serve needs Ray Serve ({error}): pip install 'ray[serve]'") from error

from ._errors import UsageError
from ._routes import (HEALTH_ROUTES, LAST_EVENT, TEXT_ROUTES, RouteError, check_key, check_model, event_text,
                      model_list, places_for, prefix_of, read_body, route_error)
from ._turns import Item, Turns
from .llm import LLM

_UNAVAILABLE = (RayActorError, DeploymentUnavailableError, ReplicaUnavailableError)
_CANCELLED = (RequestCancelledError, TaskCancelledError)
_RETRY_SECONDS = {"Retry-After": "1"}


class Settings(pydantic.BaseModel):
    """What `serve run nibble.ray_serve:build` and the `args` of a Serve config take."""

    model_config = pydantic.ConfigDict(extra="forbid")

    model: str  #: a folder or a GGUF file, at the same path on every node
    name: Optional[str] = None  #: for clients; default: the folder's name
    min_replicas: int = 1
    max_replicas: int = 1
    target_ongoing: float = 4  #: requests that run or wait, for each replica: more of them add replicas
    upscale_delay_s: float = 10
    downscale_delay_s: float = 300
    max_ongoing: int = 16  #: requests that a replica has at a time; others wait at the fronts
    max_queued: int = 256  #: requests that wait at a front; others are 429
    max_together: int = 8  #: requests that are alike and run together
    prefix_characters: int = 256  #: requests whose first characters are equal go to the same replica
    fronts: int = 1  #: processes that read requests
    cpus: float = 1  #: of a replica; also its threads
    gpus: float = 0
    device: str = "auto"
    context: int = 0
    kv_type: str = "f16"
    chat_template: Optional[str] = None


class PrefixRouter(RequestRouter):
    """Requests with one key (the first argument) go to one replica while that has room, else to the next in an order
    of the key's own."""

    async def choose_replicas(self, candidate_replicas: list[RunningReplica],
                              pending_request: Optional[PendingRequest] = None) -> list[list[RunningReplica]]:
        if pending_request is None or not pending_request.args:
            return [candidate_replicas]
        replicas = {replica.replica_id.unique_id: replica for replica in candidate_replicas}
        return [[replicas[name]] for name in places_for(str(pending_request.args[0]), replicas)]


class Model:
    """A replica."""

    def __init__(self, settings: Settings) -> None:
        name = _name(settings)
        llm = LLM(settings.model, settings.device, threads=max(1, int(settings.cpus)), context=settings.context,
                  max_batch=settings.max_together, kv_type=settings.kv_type, chat_template=settings.chat_template)
        if llm.facts.kind != "decoder":
            raise UsageError(f"{settings.model} is an {llm.facts.kind}; nibble.ray_serve takes decoders")
        self._turns = Turns(llm, name, settings.max_together)
        self._replica = serve.get_replica_context().replica_id.unique_id

    async def answer(self, _key: str, route: str, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Parts of an answer: {"replica", "status", "body"}."""
        loop = asyncio.get_running_loop()
        items: asyncio.Queue[Item] = asyncio.Queue()
        request = self._turns.submit(route, body, lambda item: loop.call_soon_threadsafe(items.put_nowait, item))
        try:
            while (item := await items.get()) is not None:
                if isinstance(item, BaseException):
                    failure = route_error(item)
                    yield {"replica": self._replica, "status": failure.status, "body": failure.body()}
                    return
                yield {"replica": self._replica, "status": 200, "body": item}
        finally:
            self._turns.leave(request)

    def check_health(self) -> None:
        if not self._turns.works:
            raise RuntimeError("the thread of the model ended")


class Front:
    """Reads requests, and sends each to a replica of the model."""

    def __init__(self, settings: Settings, model: DeploymentHandle, key: Optional[str]) -> None:
        self._model, self._key = model, key
        self._name, self._characters = _name(settings), settings.prefix_characters
        self._created = int(time.time())

    async def __call__(self, request: Request) -> Response:
        try:
            return await self._answer(request)
        except RouteError as error:
            return _error_response(error)

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        if path in HEALTH_ROUTES:
            await asyncio.to_thread(_check_replicas)
            return JSONResponse({"status": "ok"})
        if path == "/livez":
            return JSONResponse({"status": "ok"})
        check_key(request.headers.get("authorization", ""), self._key)
        if path == "/v1/models":
            return JSONResponse(model_list(self._name, self._created))
        if path not in TEXT_ROUTES:
            raise RouteError(404, f"there is nothing at {path[:100]}")
        if request.method != "POST":
            raise RouteError(405, f"{path} takes POST")
        body = read_body(await request.body(), request.headers.get("content-type", ""))
        check_model(body, self._name)
        return await self._write(TEXT_ROUTES[path], body)

    async def _write(self, route: str, body: dict[str, Any]) -> Response:
        answers = self._model.options(stream=True).answer.remote(prefix_of(body, self._characters), route, body)
        try:
            first = await answers.__anext__()
        except Exception as error:
            raise _fleet_error(error) from error
        headers = {"x-nibble-replica": first["replica"]}
        if first["status"] != 200 or not body.get("stream"):
            return JSONResponse(first["body"], first["status"], headers)
        return StreamingResponse(_events(first, answers), headers=headers, media_type="text/event-stream")


async def _events(first: dict[str, Any], answers: Any) -> AsyncIterator[str]:
    """A stream. Errors are events of their own. A client that leaves ends the answer."""
    ended = False
    try:
        yield event_text(first["body"])
        async for part in answers:
            yield event_text(part["body"])
        ended = True
    except Exception as error:
        ended = True
        yield event_text(_fleet_error(error).body())
    finally:
        if not ended:
            answers.cancel()
    yield LAST_EVENT


def _fleet_error(error: Exception) -> RouteError:
    if isinstance(error, BackPressureError):
        return RouteError(429, "too many requests wait; try again later")
    if isinstance(error, _UNAVAILABLE):
        return RouteError(503, "the replica that had the request ended; send it again")
    if isinstance(error, _CANCELLED):
        return RouteError(503, "the request was cancelled")
    return route_error(error)


def _error_response(error: RouteError) -> JSONResponse:
    return JSONResponse(error.body(), error.status, _RETRY_SECONDS if error.status in (429, 503) else None)


def _check_replicas() -> None:
    application = serve.status().applications[serve.get_replica_context().app_name]
    if not application.deployments["Model"].replica_states.get("RUNNING"):
        raise RouteError(503, "no replica of the model runs")


def _name(settings: Settings) -> str:
    return settings.name or os.path.basename(os.path.abspath(settings.model))


def build(settings: Settings) -> serve.Application:
    """The application. NIBBLE_API_KEY, where it is set, is the key that clients must send."""
    if isinstance(settings, dict):
        settings = Settings(**settings)
    scaling = AutoscalingConfig(min_replicas=settings.min_replicas, max_replicas=settings.max_replicas,
                                target_ongoing_requests=settings.target_ongoing,
                                upscale_delay_s=settings.upscale_delay_s, downscale_delay_s=settings.downscale_delay_s)
    model = serve.deployment(
        Model, name="Model", autoscaling_config=scaling, max_ongoing_requests=settings.max_ongoing,
        max_queued_requests=settings.max_queued, graceful_shutdown_timeout_s=60,
        request_router_config=RequestRouterConfig(request_router_class=PrefixRouter),
        ray_actor_options={"num_cpus": settings.cpus, "num_gpus": settings.gpus}).bind(settings)
    # A front waits for answers and computes nothing: it takes no processor of its own.
    front = serve.deployment(Front, name="Front", num_replicas=settings.fronts, max_ongoing_requests=1024,
                             ray_actor_options={"num_cpus": 0})
    return front.bind(settings, model, os.environ.get("NIBBLE_API_KEY"))
