"""Requests of OpenAI's API that one call of generate() can answer beside others."""
from __future__ import annotations

import json
import secrets
import time
from typing import Any, Optional, Union

from .llm import LLM
from .results import Completion
from .sampling import SamplingParams

_MOST_TOKENS = 16  # of a completion that does not say
_NUMBERS = {"temperature": (0, 100), "min_p": (0, 0.999), "presence_penalty": (-2, 2), "frequency_penalty": (-2, 2)}
_OTHERS = {"model", "prompt", "messages", "stream", "max_tokens", "max_completion_tokens", "stop", "user", "n"}
_SEED_BITS = 62
_MOST_OF_ALL = 2**31 - 1  # what a request may say


class PlainRequest:
    """A request for one text with nothing but ordinary ways to draw tokens.

    Everything else (several texts, log probabilities, tools, schemas, a seed), and whatever is wrong, is left to
    LLM.create_completion and create_chat_completion."""

    def __init__(self, route: str, body: dict[str, Any]) -> None:
        self._chat = route == "chat/completions"
        self._body = body
        self._id = ("chatcmpl-" if self._chat else "cmpl-") + secrets.token_hex(8)
        self._created = int(time.time())

    def likeness(self) -> Optional[str]:
        """Requests with equal ones can share a call. None: not with any."""
        body = self._body
        if not set(body) <= _OTHERS | set(_NUMBERS) or body.get("n", 1) != 1:
            return None
        limits_are_plain = all(_is_number(body[name]) and low <= body[name] <= high
                               for name, (low, high) in _NUMBERS.items() if name in body)
        if not limits_are_plain or not isinstance(body.get("stream", False), bool):
            return None
        if not self._has_one_prompt() or not isinstance(body.get("model", ""), str):
            return None
        stops = _stops(body)
        most = self._most_tokens()
        if stops is None or most is None or not 0 <= most <= _MOST_OF_ALL:
            return None
        return json.dumps([most, stops, {name: body[name] for name in _NUMBERS if name in body}], sort_keys=True)

    def _has_one_prompt(self) -> bool:
        if self._chat:
            return isinstance(self._body.get("messages"), list) and "prompt" not in self._body
        return isinstance(self._body.get("prompt"), str) and "messages" not in self._body

    def _most_tokens(self) -> Optional[int]:
        """0: what the context has left."""
        names = [name for name in ("max_tokens", "max_completion_tokens") if name in self._body]
        if len(names) > 1 or (names == ["max_completion_tokens"] and not self._chat):
            return None
        most = self._body[names[0]] if names else 0 if self._chat else _MOST_TOKENS
        return most if isinstance(most, int) and not isinstance(most, bool) and (most > 0 or not names) else None

    def params(self, context: int) -> SamplingParams:
        """Those of all requests of the same likeness."""
        numbers = {name: float(self._body.get(name, 1 if name == "temperature" else 0)) for name in _NUMBERS}
        return SamplingParams(max_tokens=self._most_tokens() or context, top_k=0, top_p=1.0,
                              seed=secrets.randbits(_SEED_BITS), stop=_stops(self._body) or [], **numbers)

    def prompt(self, llm: LLM) -> Union[str, list[int]]:
        return llm.chat_prompt(self._body["messages"]) if self._chat else str(self._body["prompt"])

    # ---- answers, as those of `nibble serve`

    @property
    def streams(self) -> bool:
        return bool(self._body.get("stream", False))

    def first_event(self, model: str) -> Optional[dict[str, Any]]:
        return self._event(model, {"role": "assistant", "content": ""}, None) if self._chat else None

    def piece_event(self, model: str, piece: str) -> dict[str, Any]:
        return self._event(model, {"content": piece} if self._chat else piece, None)

    def last_event(self, model: str, completion: Completion) -> dict[str, Any]:
        return self._event(model, {} if self._chat else "", completion.finish_reason)

    def answer(self, model: str, completion: Completion) -> dict[str, Any]:
        text: Any = {"role": "assistant", "content": completion.text, "refusal": None} if self._chat \
            else completion.text
        written = len(completion.token_ids)
        usage = {"prompt_tokens": completion.prompt_tokens, "completion_tokens": written,
                 "total_tokens": completion.prompt_tokens + written}
        choice = {"index": 0, "message" if self._chat else "text": text, "logprobs": None,
                  "finish_reason": completion.finish_reason}
        return {**self._head(model, "chat.completion" if self._chat else "text_completion"), "choices": [choice],
                "usage": usage}

    def _event(self, model: str, text: Any, finish_reason: Optional[str]) -> dict[str, Any]:
        choice = {"index": 0, "delta" if self._chat else "text": text, "logprobs": None,
                  "finish_reason": finish_reason}
        return {**self._head(model, "chat.completion.chunk" if self._chat else "text_completion"), "choices": [choice]}

    def _head(self, model: str, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._body.get("model") or model}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _stops(body: dict[str, Any]) -> Optional[list[str]]:
    """None: not plain."""
    stop = body.get("stop")
    stops = [] if stop is None else [stop] if isinstance(stop, str) else stop
    is_plain = isinstance(stops, list) and len(stops) <= 16 and all(isinstance(each, str) and each for each in stops)
    return stops if is_plain else None
