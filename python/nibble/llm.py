"""A model that is open."""
from __future__ import annotations

import ctypes
import json
import logging
import os
import weakref
from typing import Any, Callable, Iterator, Optional, Sequence, Union

import numpy as np

from ._calls import Failure, stream, wait_for
from ._errors import UsageError, check
from ._handle import Handle
from ._inputs import Prompt, as_list, ids_of, inputs_of, is_one
from ._library import (EVENT, LOG, PIECE, PROGRESS, EvaluateOptions, Facts, Likelihood as CLikelihood, OpenOptions,
                       ReadOptions, TokenizeOptions, defaults, lib, taken_text)
from .results import Completion, Likelihood, ModelFacts, completions_of
from .sampling import SamplingParams

Messages = Sequence[dict[str, Any]]
Progress = Callable[[str, int, int, str], None]

_KINDS = ("decoder", "encoder", "encoder-decoder")
_log = logging.getLogger("nibble")


class LLM:
    """A model on one device.

    It may be used by several threads: calls wait for one another. What one call is given runs together.
    Ctrl-C ends a call; the model goes on to be usable.
    """

    def __init__(self, model: Union[str, "os.PathLike[str]"], device: str = "auto", *, threads: int = 0,
                 context: int = 0, max_batch: int = 0, kv_bytes: int = 0, kv_type: str = "f16",
                 activations: str = "int8", lora: Union[str, "os.PathLike[str]", None] = None,
                 lora_scale: float = 1.0, chat_template: Optional[str] = None) -> None:
        """`model`: a Hugging Face folder, a compressed folder or a GGUF file. `device`: "cpu", "cuda", "cuda:1";
        "auto" is a GPU that runs the model, else the CPU. 0 is the default of include/nibble/nibble.h."""
        options = defaults(OpenOptions)
        options.device, options.threads, options.context = device.encode(), threads, context
        options.max_batch, options.kv_bytes = max_batch, kv_bytes
        options.kv_type, options.activations = kv_type.encode(), activations.encode()
        options.lora, options.lora_scale = None if lora is None else os.fsencode(lora), lora_scale
        options.chat_template = None if chat_template is None else chat_template.encode()
        options.log = LOG(lambda _user, line: _log.info(line.decode(errors="replace")))
        opened = ctypes.c_void_p()
        check(lib.nibble_model_open(os.fsencode(model), ctypes.byref(options), ctypes.byref(opened)))
        self._call = Handle(opened)
        self._closer = weakref.finalize(self, self._call.close)
        self.facts = self._read_facts()

    def close(self) -> None:
        """Ends what runs, and gives the memory back. Further calls are refused."""
        self._closer()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def cancel(self) -> None:
        """From another thread: the call that runs raises CancelledError soon."""
        self._call.cancel()

    def _read_facts(self) -> ModelFacts:
        facts = Facts(struct_size=ctypes.sizeof(Facts))
        check(self._call(lib.nibble_model_facts, ctypes.byref(facts)))
        plain = {name: getattr(facts, name) for name in ("vocabulary", "context", "hidden", "layers", "parameters",
                                                         "weight_bytes", "bits_per_weight")}
        texts = {name: getattr(facts, name).decode() for name in ("family", "recipe", "device", "chat_template")}
        labels = [self._call(lib.nibble_model_label, i).decode() for i in range(facts.labels)]
        return ModelFacts(kind=_KINDS[facts.kind], labels=labels, bos=_id(facts.bos), eos=_id(facts.eos),
                          pad=_id(facts.pad), **plain, **texts)

    # ---- tokens

    def tokenize(self, text: str, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """The ids of a text. `add_special`: with the tokens that the model expects around it."""
        options = defaults(TokenizeOptions)
        options.add_special, options.parse_special = int(add_special), int(parse_special)
        ids, count, encoded = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t(), text.encode()
        check(self._call(lib.nibble_tokenize, encoded, len(encoded), ctypes.byref(options), ctypes.byref(ids),
                         ctypes.byref(count)))
        return self._taken_ids(ids, count)

    def detokenize(self, ids: Sequence[int], skip_special: bool = True) -> str:
        """The text of ids."""
        values, text, size = ids_of(ids), ctypes.c_void_p(), ctypes.c_size_t()
        check(self._call(lib.nibble_detokenize, values, len(values), int(skip_special), ctypes.byref(text),
                         ctypes.byref(size)))
        try:
            return ctypes.string_at(text, size.value).decode()
        finally:
            lib.nibble_free(text)

    @staticmethod
    def _taken_ids(ids: Any, count: ctypes.c_size_t) -> list[int]:
        try:
            return list(ids[:count.value])
        finally:
            lib.nibble_free(ids)

    # ---- writing

    def generate(self, prompts: Union[Prompt, Sequence[Prompt]], sampling_params: Optional[SamplingParams] = None, *,
                 stream: bool = False) -> Any:
        """Continues prompts (texts, or ids), all together: a Completion, or a list of them for a list.

        With `stream`, an iterator of pieces of the text; for a list, of (number of the prompt, piece)."""
        params = sampling_params or SamplingParams()
        one, inputs = is_one(prompts), inputs_of(as_list(prompts))

        def run(options: Any, texts: Any) -> Any:
            return self._call(lib.nibble_generate, inputs, len(inputs), options, texts)

        if stream:
            return self._stream(run, params, one)
        completions = self._write(run, params, None)
        return completions[0] if one else completions

    def chat(self, messages: Messages, tools: Optional[Sequence[dict[str, Any]]] = None,
             sampling_params: Optional[SamplingParams] = None, *,
             stream: bool = False) -> Union[Completion, Iterator[str]]:
        """Continues a conversation, as the model's chat template writes it. Messages and tools are those of OpenAI's
        API; calls of tools are in `tool_calls`, not in the text. With `stream`, an iterator of pieces."""
        params = sampling_params or SamplingParams()
        asked, offered = _json(list(messages)), None if tools is None else _json(list(tools))

        def run(options: Any, texts: Any) -> Any:
            return self._call(lib.nibble_chat, asked, offered, options, texts)

        return self._stream(run, params, True) if stream else self._write(run, params, None)[0]

    def chat_prompt(self, messages: Messages, tools: Optional[Sequence[dict[str, Any]]] = None) -> list[int]:
        """The ids that chat() gives the model."""
        ids, count = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t()
        offered = None if tools is None else _json(list(tools))
        check(self._call(lib.nibble_chat_prompt, _json(list(messages)), offered, ctypes.byref(ids),
                         ctypes.byref(count)))
        return self._taken_ids(ids, count)

    def _generate(self, prompts: Sequence[Prompt], params: SamplingParams,
                  on_piece: Callable[[int, str], None]) -> list[Completion]:
        """generate(), with both the pieces as they come (on this thread) and the completions. What `on_piece` raises
        ends it."""
        inputs = inputs_of(prompts)
        return self._write(lambda options, texts: self._call(lib.nibble_generate, inputs, len(inputs), options, texts),
                           params, on_piece)

    def _write(self, run: Callable[[Any, Any], int], params: SamplingParams,
               on_piece: Optional[Callable[[int, str], None]]) -> list[Completion]:
        options, texts, failure = params._options(), ctypes.c_void_p(), Failure()

        def take(_user: Any, index: int, text: int, size: int) -> int:
            assert on_piece is not None
            return failure.guarded(on_piece, index, ctypes.string_at(text, size).decode())

        if on_piece is not None:
            options.on_piece = PIECE(take)

        def call() -> None:
            status = run(ctypes.byref(options), ctypes.byref(texts))
            failure.rethrow()
            check(status)

        # A stream has a thread already.
        call() if on_piece is not None else wait_for(call, self.cancel)
        return completions_of(texts, params.logprobs is not None)

    def _stream(self, run: Callable[[Any, Any], int], params: SamplingParams, one: bool) -> Iterator[Any]:
        def start(put: Callable[[Any], None]) -> None:
            self._write(run, params, lambda index, piece: put(piece if one else (index, piece)))

        return stream(start, self.cancel)

    # ---- OpenAI's API

    def create_completion(self, **request: Any) -> Union[dict[str, Any], Iterator[dict[str, Any]]]:
        """What `nibble serve` answers to a body of /v1/completions; with stream=True its events."""
        return self._openai("completions", request)

    def create_chat_completion(self, **request: Any) -> Union[dict[str, Any], Iterator[dict[str, Any]]]:
        """What `nibble serve` answers to a body of /v1/chat/completions; with stream=True its events."""
        return self._openai("chat/completions", request)

    def _openai(self, route: str, request: dict[str, Any]) -> Union[dict[str, Any], Iterator[dict[str, Any]]]:
        body = _json(request)

        def run(put: Optional[Callable[[dict[str, Any]], None]]) -> str:
            failure, answer = Failure(), ctypes.c_void_p()

            def take(_user: Any, event: bytes) -> int:
                return failure.guarded(lambda: put(json.loads(event)))  # type: ignore[misc]

            status = self._call(lib.nibble_openai, route.encode(), body, EVENT(take) if put else EVENT(), None,
                                ctypes.byref(answer))
            failure.rethrow()
            check(status)
            return taken_text(answer)

        if request.get("stream"):
            return stream(run, self.cancel)
        answer: dict[str, Any] = json.loads(wait_for(lambda: run(None), self.cancel))
        return answer

    # ---- numbers

    def embed(self, texts: Union[str, Sequence[Prompt]], *, normalize: bool = False, pooling: Optional[str] = None,
              max_tokens: int = 0, truncate: bool = True) -> "np.ndarray[Any, np.dtype[np.float32]]":
        """Embeddings, [texts, width]; [width] of one text."""
        one, inputs = is_one(texts), inputs_of(as_list(texts))
        options = _read_options(max_tokens, truncate)
        options.normalize, options.pooling = int(normalize), None if pooling is None else pooling.encode()
        values = self._numbers(
            lambda *out: self._call(lib.nibble_embed, inputs, len(inputs), ctypes.byref(options), *out))
        return values[0] if one else values

    def classify(self, texts: Union[str, Sequence[str]], pairs: Union[str, Sequence[str], None] = None, *,
                 max_tokens: int = 0, truncate: bool = True) -> Any:
        """What a classifier says of a text, or of each of several: {"label", "logits"}; of a model that labels tokens
        {"tokens": [{"token", "label", "logits"}]}. `pairs`: the second text of each."""
        one, inputs = is_one(texts), inputs_of(as_list(texts))
        seconds = None if pairs is None else inputs_of(as_list(pairs))
        if seconds is not None and len(seconds) != len(inputs):
            raise UsageError(f"there are {len(inputs)} texts and {len(seconds)} pairs; give as many")
        options, answer = _read_options(max_tokens, truncate), ctypes.c_void_p()
        self._run(lambda: self._call(lib.nibble_classify, inputs, seconds, len(inputs), ctypes.byref(options),
                                     ctypes.byref(answer)))
        results = json.loads(taken_text(answer))["results"]
        return results[0] if one else results

    def score(self, contexts: Union[Prompt, Sequence[Prompt]],
              continuations: Union[Prompt, Sequence[Prompt]]) -> Any:
        """log P(continuation | context): a Likelihood, or a list of them. Texts follow the rule of
        lm-evaluation-harness; ids are taken as they are, and without any the context is the token that begins a
        text."""
        one = is_one(continuations)
        firsts: list[Any] = [contexts] if one else as_list(contexts)
        seconds = as_list(continuations)
        if len(firsts) != len(seconds):
            raise UsageError(f"there are {len(firsts)} contexts and {len(seconds)} continuations; give as many")
        results, before, behind = (CLikelihood * len(firsts))(), inputs_of(firsts), inputs_of(seconds)
        self._run(lambda: self._call(lib.nibble_score, before, behind, len(firsts), results))
        scores = [Likelihood(each.log_likelihood, bool(each.greedy), each.tokens) for each in results]
        return scores[0] if one else scores

    def forward(self, ids: Sequence[int],
                target: Optional[Sequence[int]] = None) -> "np.ndarray[Any, np.dtype[np.float32]]":
        """Logits, [ids, vocabulary]: row i is what a decoder expects behind ids[i]. `target`: of an encoder-decoder
        that has read `ids`; row i is what it expects in the place of target[i]."""
        values = ids_of(ids)
        behind = None if target is None else ids_of(target)
        count = 0 if behind is None else len(behind)
        return self._numbers(lambda *out: self._call(lib.nibble_forward, values, len(values), behind, count, *out))

    def evaluate(self, text: str, *, seq_len: int = 0, max_tokens: int = 0, reference: Optional[LLM] = None,
                 progress: Optional[Progress] = None) -> dict[str, Any]:
        """Perplexity of a text, as `nibble eval --json`. With `reference`, also how far the predictions of the two
        are apart. For the figures of `nibble eval` open models with kv_type="f32"."""
        options, answer, failure, encoded = defaults(EvaluateOptions), ctypes.c_void_p(), Failure(), text.encode()
        options.seq_len, options.max_tokens = seq_len, max_tokens
        if progress is not None:
            options.on_progress = PROGRESS(_told(progress, failure))

        def measure(other: Any = None) -> int:
            options.reference = other
            return int(self._call(lib.nibble_evaluate, encoded, len(encoded), ctypes.byref(options),
                                  ctypes.byref(answer)))

        def call() -> int:
            status = measure() if reference is None else reference._call(measure)
            failure.rethrow()
            return int(status)

        self._run(call)
        result: dict[str, Any] = json.loads(taken_text(answer))
        return result

    def _run(self, call: Callable[[], int]) -> None:
        wait_for(lambda: check(call()), self.cancel)

    def _numbers(self, call: Callable[..., int]) -> "np.ndarray[Any, np.dtype[np.float32]]":
        values, rows, columns = ctypes.POINTER(ctypes.c_float)(), ctypes.c_size_t(), ctypes.c_size_t()
        self._run(lambda: call(ctypes.byref(values), ctypes.byref(rows), ctypes.byref(columns)))
        try:
            if rows.value * columns.value == 0:
                return np.empty((rows.value, columns.value), np.float32)
            return np.ctypeslib.as_array(values, (rows.value, columns.value)).copy()
        finally:
            lib.nibble_free(values)


def _id(token: int) -> Optional[int]:
    return None if token < 0 else token


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _read_options(max_tokens: int, truncate: bool) -> Any:
    options = defaults(ReadOptions)
    options.max_tokens, options.no_truncate = max_tokens, int(not truncate)
    return options


def _told(progress: Progress, failure: Failure) -> Callable[..., int]:
    def tell(_user: Any, job: bytes, done: int, total: int, note: bytes) -> int:
        return failure.guarded(progress, job.decode(), done, total, note.decode())

    return tell
