"""Models for lm-evaluation-harness (0.4.13).

    import lm_eval
    from nibble.lm_eval import NibbleLM

    lm_eval.simple_evaluate(model=NibbleLM("llama-w4"), tasks=["arc_easy"])

Importing this registers the model "nibble" too.
"""
from __future__ import annotations

import json
from typing import Any, Sequence

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from ._errors import UsageError
from .llm import LLM
from .sampling import SamplingParams

_MOST_TOKENS = 256  # of a text where a task does not say, as the harness has it
_UNTIL = ("until", "max_gen_toks", "do_sample", "temperature", "top_p", "top_k")


@register_model("nibble")
class NibbleLM(LM):  # type: ignore[misc]
    """A decoder. Likelihoods follow the rules of the harness for Hugging Face models."""

    def __init__(self, pretrained: str, device: str = "auto", max_length: int = 0, kv_type: str = "f32",
                 seed: int = 0, **options: Any) -> None:
        """`options` are those of LLM; what the harness adds for other models (batch_size) is not used."""
        super().__init__()
        for name in ("batch_size", "max_batch_size"):
            options.pop(name, None)
        self.llm = LLM(pretrained, device, context=int(max_length), kv_type=kv_type, **options)
        if self.llm.facts.kind != "decoder":
            raise UsageError(f"{pretrained} is an {self.llm.facts.kind}; the harness takes decoders")
        self._seed = int(seed)
        facts = self.llm.facts
        first = facts.bos if facts.bos is not None else facts.eos
        self._begins_with = "" if first is None else self.llm.detokenize([first], skip_special=False)
        self._first = [] if first is None else [first]

    @property
    def tokenizer_name(self) -> str:
        return self.llm.facts.family

    def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        pairs = [request.args for request in requests]
        scores = self.llm.score([context for context, _ in pairs], [continuation for _, continuation in pairs])
        return [(score.log_likelihood, score.is_greedy) for score in scores]

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        sums = []
        for request in requests:
            windows = rolling_windows(self.llm.tokenize(request.args[0], add_special=False), self._first,
                                      self.llm.facts.context)
            scores = self.llm.score([context for context, _ in windows], [predicted for _, predicted in windows])
            sums.append(sum(score.log_likelihood for score in scores))
        return sums

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        texts = [""] * len(requests)
        together: dict[str, list[int]] = {}
        for i, request in enumerate(requests):  # those with equal options share a batch
            together.setdefault(json.dumps(request.args[1], sort_keys=True), []).append(i)
        for options, places in together.items():
            params = self._params(json.loads(options))
            prompts = [self._prompt(requests[i].args[0], params) for i in places]
            for i, completion in zip(places, self.llm.generate(prompts, params)):
                texts[i] = completion.text
        return texts

    def apply_chat_template(self, chat_history: Sequence[dict[str, str]], add_generation_prompt: bool = True) -> str:
        if not add_generation_prompt:
            raise UsageError("chats that end within an answer are not built")
        return self.llm.detokenize(self.llm.chat_prompt(chat_history), skip_special=False)

    def _params(self, options: dict[str, Any]) -> SamplingParams:
        unknown = sorted(set(options) - set(_UNTIL))
        if unknown:
            raise UsageError(f"a task asks for {', '.join(unknown)}, which are not built")
        until = options.get("until") or []
        draws = bool(options.get("do_sample", False))
        params = SamplingParams(max_tokens=int(options.get("max_gen_toks", _MOST_TOKENS)), top_k=0, top_p=1.0,
                                min_p=0.0, temperature=0.0, seed=self._seed,
                                stop=[until] if isinstance(until, str) else list(until))
        if draws:
            params.temperature = float(options.get("temperature", 1.0))
            params.top_p, params.top_k = float(options.get("top_p", 1.0)), int(options.get("top_k", 0))
        return params

    def _prompt(self, context: str, params: SamplingParams) -> list[int]:
        """Its last ids, so many that the text has room."""
        has_first = bool(self._begins_with) and context.startswith(self._begins_with)
        ids = self.llm.tokenize(context, add_special=not has_first)
        assert params.max_tokens is not None
        room = self.llm.facts.context - params.max_tokens
        if room < 1:
            raise UsageError(f"a task asks for {params.max_tokens} tokens; the model's context has "
                             f"{self.llm.facts.context}")
        return (ids or self._first)[-room:]


def rolling_windows(ids: Sequence[int], first: Sequence[int],
                    length: int) -> list[tuple[list[int], list[int]]]:
    """Pairs of a context and what is predicted behind it: each of `ids` once, with as much context as `length`
    inputs allow. `first` stands before the first of them."""
    windows: list[tuple[list[int], list[int]]] = []
    done = 0
    while done < len(ids):
        end = min(len(ids), done + length)
        if done == 0:
            windows.append((list(first), list(ids[:end])))
        else:
            windows.append((list(ids[end - length - 1:done]), list(ids[done:end])))
        done = end
    return windows
