"""One model and many requests: they take turns, and those that are alike share one."""
from __future__ import annotations

import collections
import contextlib
import logging
import threading
from typing import Any, Callable, Optional, Union

from ._errors import NibbleError, UsageError
from ._plain_request import PlainRequest
from .llm import LLM

#: A part of an answer (all of it, or an event of a stream); an error, which is the last; None behind the last.
Item = Union[dict[str, Any], BaseException, None]

_CANCEL_AGAIN_SECONDS = 0.05  # a call that had not begun did not see the first time

_log = logging.getLogger("nibble")


class _AllLeft(Exception):
    """Nobody waits for what is being written."""


class Request:
    """A body that was sent to "/v1/" and `route`. What comes of it is put on the thread of the turns, or on the one that
    closes them."""

    def __init__(self, route: str, body: dict[str, Any], put: Callable[[Item], None]) -> None:
        self.route, self.body, self._put = route, body, put
        self.plain = PlainRequest(route, body)
        self.likeness = self.plain.likeness()
        self.left = False

    def put(self, item: Item) -> None:
        """Nobody waits where it cannot be put."""
        try:
            if not self.left:
                self._put(item)
        except Exception:
            self.left = True
            _log.exception("an answer cannot be handed over")


class Turns:
    """Requests for a model on a thread of its own, the first first.

    A call of LLM cannot be joined by others once it runs, and LLM.cancel() ends all that wait for the model. So this
    is its only caller: it gives what waits and is alike to one call, and cancels a call only when
    all its requests were left."""

    def __init__(self, llm: LLM, name: str, most_together: int = 8) -> None:
        self._llm, self._name, self._most_together = llm, name, most_together
        self._waiting: collections.deque[Request] = collections.deque()
        self._running: list[Request] = []
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="nibble turns", daemon=True)
        self._thread.start()

    def submit(self, route: str, body: dict[str, Any], put: Callable[[Item], None]) -> Request:
        request = Request(route, body, put)
        with self._changed:
            if self._closed:
                raise UsageError("the model is closed")
            self._waiting.append(request)
            self._changed.notify_all()
        return request

    def leave(self, request: Request) -> None:
        """Nobody waits for the answer any more: a request that waits is dropped, one that runs ends soon."""
        with self._changed:
            request.left = True
            if request in self._waiting:
                self._waiting.remove(request)
            if request in self._running and all(each.left for each in self._running):
                self._llm.cancel()
                again = threading.Timer(_CANCEL_AGAIN_SECONDS, self.leave, [request])
                again.daemon = True
                again.start()

    @property
    def works(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """Drops what waits, ends what runs, and closes the model."""
        with self._changed:
            self._closed = True
            left = list(self._waiting) + self._running
            self._waiting.clear()
            self._changed.notify_all()
        for request in left:
            request.put(UsageError("the model is closed"))
            self.leave(request)
        self._llm.close()
        self._thread.join()

    def _run(self) -> None:
        while together := self._next():
            try:
                self._serve(together)
            except Exception as error:
                _log.exception("a request failed")
                self._fail(together, error)
            with self._changed:
                self._running = []

    def _next(self) -> list[Request]:
        """What runs now. Empty: the turns are closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                return []
            first = self._waiting.popleft()
            alike = [each for each in self._waiting if first.likeness is not None and each.likeness == first.likeness]
            self._running = [first, *alike[:self._most_together - 1]]
            for each in self._running[1:]:
                self._waiting.remove(each)
            return self._running

    def _serve(self, together: list[Request]) -> None:
        if len(together) > 1 and self._serve_together(together):
            return
        for request in together:
            with self._changed:
                self._running = [request]
            if not request.left:
                self._serve_alone(request)

    def _serve_alone(self, request: Request) -> None:
        try:
            answer = self._llm._openai(request.route, request.body)
            if isinstance(answer, dict):
                request.put(answer)
            else:
                with contextlib.closing(answer) as events:  # type: ignore[type-var]
                    for event in events:
                        if request.left:
                            return
                        request.put(event)
            request.put(None)
        except NibbleError as error:
            self._fail([request], error)

    def _serve_together(self, together: list[Request]) -> bool:
        """False: one of them cannot be served, and nothing was sent."""
        begun: set[int] = set()

        def begin(index: int) -> None:
            if index not in begun:
                begun.add(index)
                first = together[index].plain.first_event(self._name)
                if first is not None:
                    together[index].put(first)

        def on_piece(index: int, piece: str) -> None:
            if all(each.left for each in together):
                raise _AllLeft
            if together[index].plain.streams:
                begin(index)
                together[index].put(together[index].plain.piece_event(self._name, piece))

        try:
            prompts = [each.plain.prompt(self._llm) for each in together]
            params = together[0].plain.params(self._llm.facts.context)
            completions = self._llm._generate(prompts, params, on_piece)
        except _AllLeft:
            return True
        except Exception as error:
            if isinstance(error, ValueError) and not begun:  # a UsageError, or a text that is not Unicode
                return False
            self._fail(together, error)
            return True
        for index, (request, completion) in enumerate(zip(together, completions)):
            if request.plain.streams:
                begin(index)
                request.put(request.plain.last_event(self._name, completion))
            else:
                request.put(request.plain.answer(self._name, completion))
            request.put(None)
        return True

    @staticmethod
    def _fail(requests: list[Request], error: BaseException) -> None:
        for request in requests:
            request.put(error)
