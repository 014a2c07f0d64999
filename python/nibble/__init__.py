"""Nibble: compressed transformers, as a library.

    from nibble import LLM, SamplingParams

    with LLM("llama-w4") as llm:
        print(llm.generate("A library is", SamplingParams(max_tokens=64)).text)

Nothing is printed; remarks go to the logger "nibble".
"""
import logging

from ._errors import (CancelledError, FileError, IntegrityError, InvalidModelError, NibbleError, OutOfMemoryError,
                      UsageError)
from ._library import lib as _lib
from .dequantizing import dequantize
from .llm import LLM
from .quantizing import compare, quantize, recipes
from .results import Completion, Likelihood, ModelFacts
from .sampling import SamplingParams

__version__: str = _lib.nibble_version().decode()
__all__ = ["LLM", "SamplingParams", "Completion", "Likelihood", "ModelFacts", "quantize", "dequantize", "compare", "recipes",
           "NibbleError", "UsageError", "InvalidModelError", "OutOfMemoryError", "FileError", "IntegrityError",
           "CancelledError"]

logging.getLogger("nibble").addHandler(logging.NullHandler())
