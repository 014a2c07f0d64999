"""Calls that take long: other threads run meanwhile, and Ctrl-C ends them."""
from __future__ import annotations

import atexit
import queue
import threading
import weakref
from typing import Any, Callable, Generic, Iterator, Optional, TypeVar

Result = TypeVar("Result")

_CANCEL_AGAIN_SECONDS = 0.05  # a call that had not begun did not see the first time


class Work(Generic[Result]):
    """A call on a thread of its own. `cancel` makes it end soon."""

    def __init__(self, call: Callable[[], Result], cancel: Callable[[], None]) -> None:
        self._call = call
        self._cancel = cancel
        self._done = threading.Event()
        self._result: Optional[Result] = None
        self._error: Optional[BaseException] = None
        _works.add(self)
        threading.Thread(target=self._run, name="nibble", daemon=True).start()

    def _run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:  # handed to the thread that waits
            self._error = error
        finally:
            self._done.set()

    def stop(self) -> None:
        """Ends the call and waits until it has ended."""
        while not self._done.is_set():
            self._cancel()
            self._done.wait(_CANCEL_AGAIN_SECONDS)

    def result(self) -> Result:
        try:
            self._done.wait()
        except BaseException:  # Ctrl-C
            self.stop()
            raise
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]


_works: "weakref.WeakSet[Work[Any]]" = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """Behind this Python runs no other thread: who waited for one then would wait for ever."""
    for work in list(_works):
        work.stop()


def wait_for(call: Callable[[], Result], cancel: Callable[[], None]) -> Result:
    """The result of a call. Only the main thread gets Ctrl-C: others need no second thread."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    return Work(call, cancel).result()


class Failure:
    """Keeps what a callback raised: no exception may pass through C."""

    def __init__(self) -> None:
        self.error: Optional[BaseException] = None

    def guarded(self, call: Callable[..., Any], *arguments: Any) -> int:
        """1, which ends the call in C, where `call` raised."""
        try:
            call(*arguments)
            return 0
        except BaseException as error:
            self.error = error
            return 1

    def rethrow(self) -> None:
        if self.error is not None:
            raise self.error


_END = object()


def stream(start: Callable[[Callable[[Any], None]], Any], cancel: Callable[[], None]) -> Iterator[Any]:
    """What `start` gives the function that it is called with, as it comes. A stream that is left early
    ends the call."""
    items: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def call() -> None:
        try:
            start(items.put)
        finally:
            items.put(_END)

    work = Work(call, cancel)
    try:
        while (item := items.get()) is not _END:
            yield item
        work.result()
    finally:
        work.stop()
