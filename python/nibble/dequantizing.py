"""The weights of compressed layers as plain numbers."""
from __future__ import annotations

import os
import threading
from typing import Any, Callable, Union

import numpy as np

from ._calls import Failure, wait_for
from ._errors import check
from ._library import WEIGHTS, lib


def dequantize(model: Union[str, "os.PathLike[str]"],
               each: Callable[[str, "np.ndarray[Any, np.dtype[np.float32]]"], None]) -> None:
    """Calls `each(layer, weights)` for every compressed layer of a model: its name ("model.layers.0.mlp.up_proj"),
    and its weights as a plain layer has them, float32 [outputs, inputs]. They are valid within the call: copy what
    is to be kept. What `each` raises ends it and is raised."""
    failure, ends = Failure(), threading.Event()

    def weights(_user: Any, layer: bytes, values: Any, rows: int, columns: int) -> int:
        if ends.is_set():
            return 1
        array = np.ctypeslib.as_array(values, shape=(rows, columns))
        array.flags.writeable = False
        return failure.guarded(each, layer.decode(), array)

    def work() -> None:
        status = lib.nibble_dequantize(os.fsencode(model), WEIGHTS(weights), None)
        failure.rethrow()
        check(status)

    wait_for(work, ends.set)
