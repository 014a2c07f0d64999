"""Offline work on Ray: embeddings and likelihoods of a data set, and recipes compared side by side (docs/fleet.md).

    import ray
    from nibble import ray_data

    embedded = ray_data.embed(ray.data.read_parquet("texts"), "bge-small", actors=4)
"""
from __future__ import annotations

from typing import Any, Optional, Sequence

try:
    import ray
    from ray.data import ActorPoolStrategy, Dataset
except ImportError as error:
    raise ImportError(f"nibble.ray_data needs Ray Data ({error}): pip install 'ray[data]'") from error

import numpy as np

from ._errors import UsageError
from .llm import LLM
from .quantizing import compare as _compare

Batch = dict[str, "np.ndarray[Any, Any]"]


class _Embedder:
    """An actor with a model."""

    def __init__(self, model: str, column: str, output: str, options: dict[str, Any], how: dict[str, Any]) -> None:
        self._llm = LLM(model, **options)
        self._column, self._output, self._how = column, output, how

    def __call__(self, batch: Batch) -> Batch:
        return {**batch, self._output: self._llm.embed(_texts(batch, self._column), **self._how)}


class _Scorer:
    """An actor with a model."""

    def __init__(self, model: str, context: str, continuation: str, options: dict[str, Any]) -> None:
        self._llm = LLM(model, **options)
        self._context, self._continuation = context, continuation

    def __call__(self, batch: Batch) -> Batch:
        scores = self._llm.score(_texts(batch, self._context), _texts(batch, self._continuation))
        return {**batch, "log_likelihood": np.array([each.log_likelihood for each in scores], np.float64),
                "is_greedy": np.array([each.is_greedy for each in scores], bool),
                "tokens": np.array([each.tokens for each in scores], np.int64)}


def _texts(batch: Batch, column: str) -> list[str]:
    if column not in batch:
        raise UsageError(f"the data set has no column '{column}'; it has {', '.join(sorted(batch))}")
    return [str(text) for text in batch[column]]


def embed(dataset: Dataset, model: str, *, column: str = "text", output: str = "embedding", actors: int = 1,
          batch_size: int = 64, num_cpus: float = 1, num_gpus: float = 0, normalize: bool = False,
          pooling: Optional[str] = None, **options: Any) -> Dataset:
    """The data set with a column of embeddings, as LLM.embed gives them.

    Each of the `actors` has the model and `num_cpus` threads. `options` are those of LLM. The model is read at the
    same path on every node."""
    how = {"normalize": normalize, "pooling": pooling}
    return _mapped(dataset, _Embedder, (model, column, output, _with_threads(options, num_cpus), how), actors,
                   batch_size, num_cpus, num_gpus)


def score(dataset: Dataset, model: str, *, context: str = "context", continuation: str = "continuation",
          actors: int = 1, batch_size: int = 64, num_cpus: float = 1, num_gpus: float = 0,
          **options: Any) -> Dataset:
    """The data set with the columns `log_likelihood`, `is_greedy` and `tokens`, as LLM.score gives them."""
    return _mapped(dataset, _Scorer, (model, context, continuation, _with_threads(options, num_cpus)), actors,
                   batch_size, num_cpus, num_gpus)


def _with_threads(options: dict[str, Any], num_cpus: float) -> dict[str, Any]:
    return {"threads": max(1, int(num_cpus)), **options}


def _mapped(dataset: Dataset, actor: type, arguments: tuple[Any, ...], actors: int, batch_size: int,
            num_cpus: float, num_gpus: float) -> Dataset:
    return dataset.map_batches(actor, fn_constructor_args=arguments, batch_size=batch_size, batch_format="numpy",
                               compute=ActorPoolStrategy(size=actors), num_cpus=num_cpus, num_gpus=num_gpus)


def compare(model: str, recipes: Sequence[str], text: str, *, num_cpus: float = 1, num_gpus: float = 0,
            **options: Any) -> list[dict[str, Any]]:
    """The rows of nibble.compare, one recipe a task: first the model as it is, then each recipe.

    Every task measures the model as it is, too, because that is what its recipe is measured against. Files of
    calibration are read at the same paths on every node."""
    if not recipes:
        raise UsageError("there are no recipes to compare")
    settings = _with_threads(options, num_cpus)
    shared_text = ray.put(text)

    @ray.remote(num_cpus=num_cpus, num_gpus=num_gpus)
    def rows_of(recipe: str, text: str) -> list[dict[str, Any]]:
        return _compare(model, [recipe], text, **settings)

    pairs = ray.get([rows_of.remote(recipe, shared_text) for recipe in recipes])
    return [pairs[0][0], *(pair[1] for pair in pairs)]
