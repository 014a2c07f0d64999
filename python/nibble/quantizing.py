"""Quantizing models, and what that costs."""
from __future__ import annotations

import ctypes
import json
import os
import threading
from typing import Any, Callable, Optional, Sequence, Union

from ._calls import Failure, wait_for
from ._errors import check
from ._library import LOG, PROGRESS, EvaluateOptions, QuantizeOptions, defaults, lib, taken_text
from .llm import Progress, _log

Path = Union[str, "os.PathLike[str]"]


class _Job:
    """A job that has no model to be cancelled with: its progress ends it."""

    def __init__(self, progress: Optional[Progress]) -> None:
        self._progress = progress
        self._failure = Failure()
        self._ends = threading.Event()
        self.options = defaults(QuantizeOptions)
        self.options.on_progress = PROGRESS(self._tell)
        self.options.log = LOG(lambda _user, line: _log.info(line.decode(errors="replace")))

    def _tell(self, _user: Any, job: bytes, done: int, total: int, note: bytes) -> int:
        if self._progress is not None and self._failure.guarded(self._progress, job.decode(), done, total,
                                                                note.decode()):
            return 1
        return int(self._ends.is_set())

    def calibrate(self, calibration: Union[Path, Sequence[Path]], samples: int, seq_len: int, seed: int) -> None:
        files = [calibration] if isinstance(calibration, (str, os.PathLike)) else list(calibration)
        self.options.calibration_files = (ctypes.c_char_p * len(files))(*map(os.fsencode, files))
        self.options.calibration_count = len(files)
        self.options.samples, self.options.seq_len, self.options.seed = samples, seq_len, seed

    def run(self, call: Callable[[Any, Any], int]) -> Any:
        def work() -> str:
            answer = ctypes.c_void_p()
            status = call(ctypes.byref(self.options), ctypes.byref(answer))
            self._failure.rethrow()
            check(status)
            return taken_text(answer)

        return json.loads(wait_for(work, self._ends.set))


def _text(value: Optional[str]) -> Optional[bytes]:
    return None if value is None else value.encode()


def quantize(model: Path, recipe: str, output: Path, *, calibration: Union[Path, Sequence[Path]] = (),
             samples: int = 0, seq_len: int = 0, seed: int = 0, device: str = "cpu", threads: int = 0,
             memory: int = 0, output_scheme: Optional[str] = None, parts: Optional[str] = None,
             target_bits: float = 0, fit_bytes: int = 0, adapter: Optional[Path] = None, resume: bool = False,
             progress: Optional[Progress] = None) -> dict[str, Any]:
    """Makes a compressed folder of a model, and says what became of it, as `nibble quantize --json`.

    `recipe`: a preset (recipes()) or a .json file. `calibration`: files of text; without any the model writes its
    own. `progress(job, done, total, note)` may raise: that ends the job. A job that was ended goes on with
    `resume`."""
    job = _Job(progress)
    job.calibrate(calibration, samples, seq_len, seed)
    options = job.options
    options.device, options.threads, options.memory = device.encode(), threads, memory
    options.output_scheme, options.parts = _text(output_scheme), _text(parts)
    options.target_bits, options.fit_bytes, options.resume = target_bits, fit_bytes, int(resume)
    options.adapter = None if adapter is None else os.fsencode(adapter)
    source, target = os.fsencode(model), os.fsencode(output)
    result: dict[str, Any] = job.run(
        lambda settings, answer: lib.nibble_quantize(source, recipe.encode(), target, settings, answer))
    return result


def recipes() -> list[str]:
    """The names of the presets."""
    answer = ctypes.c_void_p()
    check(lib.nibble_recipes(ctypes.byref(answer)))
    names: list[str] = json.loads(taken_text(answer))
    return names


def compare(model: Path, recipes: Sequence[str], text: str, *, calibration: Union[Path, Sequence[Path]] = (),
            samples: int = 0, calibration_seq_len: int = 0, seed: int = 0, seq_len: int = 0, max_tokens: int = 0,
            device: str = "cpu", threads: int = 0, progress: Optional[Progress] = None) -> list[dict[str, Any]]:
    """What recipes cost on a text: a row for the model as it is, then one for each recipe, as the rows of
    `nibble compare --json`. pandas.DataFrame takes them."""
    job = _Job(progress)
    job.calibrate(calibration, samples, calibration_seq_len, seed)
    job.options.device, job.options.threads = device.encode(), threads
    measuring = defaults(EvaluateOptions)
    measuring.seq_len, measuring.max_tokens = seq_len, max_tokens
    names, encoded, source = (ctypes.c_char_p * len(recipes))(*(name.encode() for name in recipes)), text.encode(), \
        os.fsencode(model)
    result = job.run(lambda settings, answer: lib.nibble_compare(
        source, names, len(names), encoded, len(encoded), ctypes.byref(measuring), settings, answer))
    rows: list[dict[str, Any]] = result["rows"]
    return rows
