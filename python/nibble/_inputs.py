"""Texts and ids as the library takes them."""
from __future__ import annotations

import ctypes
from typing import Any, Sequence, Union

import numpy as np

from ._library import Input

Prompt = Union[str, Sequence[int], "np.ndarray[Any, Any]"]


def is_one(prompts: Union[Prompt, Sequence[Prompt]]) -> bool:
    """Whether it is a prompt, not several."""
    if isinstance(prompts, (str, np.ndarray)):
        return isinstance(prompts, str) or prompts.ndim == 1
    return len(prompts) > 0 and isinstance(prompts[0], (int, np.integer))


def as_list(prompts: Union[Prompt, Sequence[Prompt]]) -> list[Prompt]:
    return [prompts] if is_one(prompts) else list(prompts)  # type: ignore[list-item, arg-type]


def ids_of(ids: Union[Sequence[int], "np.ndarray[Any, Any]"]) -> Any:
    """An array of C integers."""
    values = np.asarray(ids)
    if values.ndim != 1 or (values.size and not np.issubdtype(values.dtype, np.integer)):
        raise TypeError(f"ids are integers in one row, not {values.dtype} of shape {values.shape}")
    if values.size and (values.min() < -2**31 or values.max() >= 2**31):
        raise ValueError("an id has more than 32 bits")
    return (ctypes.c_int32 * values.size)(*values.tolist())


def inputs_of(prompts: Sequence[Prompt]) -> Any:
    """An array of nibble_input, which keeps what it points to."""
    inputs = (Input * len(prompts))()
    for entry, prompt in zip(inputs, prompts):
        if isinstance(prompt, str):
            entry.text = prompt.encode()
            entry.bytes = len(prompt.encode())
        else:
            ids = ids_of(prompt)
            entry.ids = ids
            entry.count = len(ids)
    return inputs
