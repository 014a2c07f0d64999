"""What calls give."""
from __future__ import annotations

import ctypes
import dataclasses
import json
from typing import Any, Optional

from ._library import lib


@dataclasses.dataclass
class Completion:
    """A text that was written."""

    text: str
    token_ids: list[int]
    finish_reason: str  #: "stop", "length" or "tool_calls"
    prompt_tokens: int
    logprobs: Optional[list[dict[str, Any]]] = None  #: where asked for, one for each token
    tool_calls: list[dict[str, Any]] = dataclasses.field(default_factory=list)  #: of chats, as OpenAI has them


@dataclasses.dataclass
class Likelihood:
    """How probable a continuation is."""

    log_likelihood: float  #: nats, summed over its tokens
    is_greedy: bool  #: each of them is the most probable one
    tokens: int


@dataclasses.dataclass(frozen=True)
class ModelFacts:
    """What a model is."""

    kind: str  #: "decoder", "encoder" or "encoder-decoder"
    family: str
    recipe: str  #: "" where nothing is compressed
    device: str
    vocabulary: int
    context: int
    hidden: int
    layers: int
    parameters: int
    weight_bytes: int
    bits_per_weight: float
    bos: Optional[int]
    eos: Optional[int]
    pad: Optional[int]
    labels: list[str]
    chat_template: str


def completions_of(texts: ctypes.c_void_p, with_logprobs: bool) -> list[Completion]:
    """Those of a nibble_texts, which is released."""
    try:
        return [_completion(texts, i, with_logprobs) for i in range(lib.nibble_texts_count(texts))]
    finally:
        lib.nibble_texts_free(texts)


def _completion(texts: ctypes.c_void_p, index: int, with_logprobs: bool) -> Completion:
    size = ctypes.c_size_t()
    text = ctypes.string_at(lib.nibble_texts_text(texts, index, ctypes.byref(size)), size.value).decode()
    ids = lib.nibble_texts_tokens(texts, index, ctypes.byref(size))
    return Completion(
        text=text,
        token_ids=ids[:size.value],
        finish_reason=lib.nibble_texts_finish_reason(texts, index).decode(),
        prompt_tokens=lib.nibble_texts_prompt_tokens(texts, index),
        logprobs=json.loads(lib.nibble_texts_log_probabilities(texts, index)) if with_logprobs else None,
        tool_calls=json.loads(lib.nibble_texts_tool_calls(texts, index)),
    )
