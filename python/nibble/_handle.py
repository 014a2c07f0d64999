"""A model of the library that may be closed while other threads use it."""
from __future__ import annotations

import ctypes
import threading
from typing import Any, Callable

from ._library import lib

_CANCEL_AGAIN_SECONDS = 0.05


class Handle:
    def __init__(self, model: ctypes.c_void_p) -> None:
        self._model = model
        self._calls = 0
        self._idle = threading.Condition()

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """function(model, *arguments). A closed model is NULL, which every function refuses."""
        with self._idle:
            self._calls += 1
            model = self._model
        try:
            return function(model, *arguments)
        finally:
            with self._idle:
                self._calls -= 1
                self._idle.notify_all()

    def cancel(self) -> None:
        with self._idle:
            lib.nibble_model_cancel(self._model)

    def close(self) -> None:
        """Ends what runs, and waits for it."""
        with self._idle:
            model, self._model = self._model, ctypes.c_void_p()
            while self._calls > 0:
                lib.nibble_model_cancel(model)
                self._idle.wait(_CANCEL_AGAIN_SECONDS)
        lib.nibble_model_close(model)
