"""How texts are written."""
from __future__ import annotations

import ctypes
import dataclasses
import json
from typing import Any, Optional, Sequence, Union

from ._library import GenerateOptions, defaults


@dataclasses.dataclass
class SamplingParams:
    """How the next token is drawn, and when a text ends. The defaults are those of `nibble run`.

    An encoder-decoder writes as its generation_config.json says: it takes max_tokens, min_tokens, beams,
    the languages and a temperature of 0.
    """

    max_tokens: Optional[int] = None  #: 128; of an encoder-decoder what the model says
    min_tokens: int = 0
    temperature: float = 0.8  #: 0: always the most probable token
    top_k: int = 40  #: 0: all
    top_p: float = 0.95
    min_p: float = 0.05
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int = 0  #: text i is drawn with seed + i
    stop: Union[str, Sequence[str]] = ()
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False
    logprobs: Optional[int] = None  #: log probabilities of so many tokens beside the chosen one
    json_schema: Union[str, dict[str, Any], None] = None  #: at most one of these three
    regex: Optional[str] = None
    grammar: Optional[str] = None  #: GBNF
    beams: Optional[int] = None
    source_language: Optional[str] = None
    target_language: Optional[str] = None

    def _options(self) -> GenerateOptions:
        """The struct; its texts live as long as it does."""
        options: GenerateOptions = defaults(GenerateOptions)
        for name in ("min_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty",
                     "presence_penalty", "frequency_penalty", "seed"):
            setattr(options, name, getattr(self, name))
        if self.max_tokens is not None:
            options.max_tokens = self.max_tokens if self.max_tokens != 0 else -1  # 0 is refused, not the default
        options.ignore_eos = int(self.ignore_eos)
        options.log_probabilities = -1 if self.logprobs is None else self.logprobs
        options.beams = self.beams or 0
        schema = self.json_schema if isinstance(self.json_schema, (str, type(None))) else json.dumps(self.json_schema)
        for name, text in (("json_schema", schema), ("regex", self.regex), ("grammar", self.grammar),
                           ("source_language", self.source_language), ("target_language", self.target_language)):
            setattr(options, name, None if text is None else text.encode())
        stops = [self.stop] if isinstance(self.stop, str) else list(self.stop)
        options.stop = (ctypes.c_char_p * len(stops))(*(stop.encode() for stop in stops))
        options.stop_count = len(stops)
        options.stop_tokens = (ctypes.c_int32 * len(self.stop_token_ids))(*self.stop_token_ids)
        options.stop_token_count = len(self.stop_token_ids)
        return options
