"""libnibble.so, its structs and functions as include/nibble/nibble.h declares them."""
from __future__ import annotations

import ctypes
import os
import pathlib
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t,
                    c_uint64, c_void_p)
from typing import Any

PIECE = CFUNCTYPE(c_int, c_void_p, c_size_t, c_void_p, c_size_t)
EVENT = CFUNCTYPE(c_int, c_void_p, c_char_p)
PROGRESS = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int64, c_int64, c_char_p)
WEIGHTS = CFUNCTYPE(c_int, c_void_p, c_char_p, POINTER(c_float), c_size_t, c_size_t)
LOG = CFUNCTYPE(None, c_void_p, c_char_p)


class OpenOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("device", c_char_p), ("threads", c_int32), ("context", c_int64),
        ("max_batch", c_int64), ("kv_bytes", c_int64), ("kv_type", c_char_p), ("activations", c_char_p),
        ("lora", c_char_p), ("lora_scale", c_double), ("chat_template", c_char_p), ("log", LOG),
        ("log_user", c_void_p),
    ]


class Facts(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("kind", c_int32), ("bos", c_int32), ("eos", c_int32), ("pad", c_int32),
        ("labels", c_int32), ("vocabulary", c_int64), ("context", c_int64), ("hidden", c_int64), ("layers", c_int64),
        ("parameters", c_int64), ("weight_bytes", c_int64), ("bits_per_weight", c_double), ("family", c_char_p),
        ("recipe", c_char_p), ("device", c_char_p), ("chat_template", c_char_p),
    ]


class TokenizeOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("add_special", c_int32), ("parse_special", c_int32)]


class Input(Structure):
    _fields_ = [("text", c_char_p), ("bytes", c_size_t), ("ids", POINTER(c_int32)), ("count", c_size_t)]


class GenerateOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("max_tokens", c_int64), ("min_tokens", c_int64), ("temperature", c_double),
        ("top_k", c_int64), ("top_p", c_double), ("min_p", c_double), ("repetition_penalty", c_double),
        ("presence_penalty", c_double), ("frequency_penalty", c_double), ("seed", c_uint64),
        ("stop", POINTER(c_char_p)), ("stop_count", c_size_t), ("stop_tokens", POINTER(c_int32)),
        ("stop_token_count", c_size_t), ("ignore_eos", c_int32), ("log_probabilities", c_int32),
        ("json_schema", c_char_p), ("regex", c_char_p), ("grammar", c_char_p), ("source_language", c_char_p),
        ("target_language", c_char_p), ("beams", c_int64), ("on_piece", PIECE), ("user", c_void_p),
    ]


class ReadOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("max_tokens", c_int64), ("no_truncate", c_int32), ("normalize", c_int32),
        ("pooling", c_char_p),
    ]


class Likelihood(Structure):
    _fields_ = [("log_likelihood", c_double), ("greedy", c_int32), ("tokens", c_int32)]


class QuantizeOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("device", c_char_p), ("threads", c_int32),
        ("calibration_files", POINTER(c_char_p)), ("calibration_count", c_size_t), ("samples", c_int64),
        ("seq_len", c_int64), ("seed", c_uint64), ("output_scheme", c_char_p), ("parts", c_char_p),
        ("target_bits", c_double), ("fit_bytes", c_int64), ("memory", c_int64), ("adapter", c_char_p),
        ("resume", c_int32), ("on_progress", PROGRESS), ("log", LOG), ("user", c_void_p),
    ]


class EvaluateOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("seq_len", c_int64), ("max_tokens", c_int64), ("reference", c_void_p),
        ("on_progress", PROGRESS), ("user", c_void_p),
    ]


# By the name of the header.
STRUCTS = {
    "nibble_open_options": OpenOptions, "nibble_facts": Facts, "nibble_tokenize_options": TokenizeOptions,
    "nibble_input": Input, "nibble_generate_options": GenerateOptions, "nibble_read_options": ReadOptions,
    "nibble_likelihood": Likelihood, "nibble_quantize_options": QuantizeOptions,
    "nibble_evaluate_options": EvaluateOptions,
}

_MODEL = c_void_p
_TEXTS = c_void_p
_IDS = POINTER(c_int32)
_FLOATS = POINTER(c_float)
_SIZE = POINTER(c_size_t)
_OWNED = POINTER(c_void_p)  # a text that nibble_free() releases

# Name: (result, arguments).
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "nibble_version": (c_char_p, []),
    "nibble_status_name": (c_char_p, [c_int]),
    "nibble_last_error": (c_char_p, []),
    "nibble_free": (None, [c_void_p]),
    "nibble_model_open": (c_int, [c_char_p, POINTER(OpenOptions), POINTER(_MODEL)]),
    "nibble_model_close": (None, [_MODEL]),
    "nibble_model_error": (c_char_p, [_MODEL]),
    "nibble_model_cancel": (None, [_MODEL]),
    "nibble_model_facts": (c_int, [_MODEL, POINTER(Facts)]),
    "nibble_model_label": (c_char_p, [_MODEL, c_int32]),
    "nibble_tokenize": (c_int, [_MODEL, c_char_p, c_size_t, POINTER(TokenizeOptions), POINTER(_IDS), _SIZE]),
    "nibble_detokenize": (c_int, [_MODEL, _IDS, c_size_t, c_int32, _OWNED, _SIZE]),
    "nibble_generate": (c_int, [_MODEL, POINTER(Input), c_size_t, POINTER(GenerateOptions), POINTER(_TEXTS)]),
    "nibble_chat": (c_int, [_MODEL, c_char_p, c_char_p, POINTER(GenerateOptions), POINTER(_TEXTS)]),
    "nibble_chat_prompt": (c_int, [_MODEL, c_char_p, c_char_p, POINTER(_IDS), _SIZE]),
    "nibble_texts_count": (c_size_t, [_TEXTS]),
    "nibble_texts_text": (c_void_p, [_TEXTS, c_size_t, _SIZE]),
    "nibble_texts_tokens": (_IDS, [_TEXTS, c_size_t, _SIZE]),
    "nibble_texts_finish_reason": (c_char_p, [_TEXTS, c_size_t]),
    "nibble_texts_prompt_tokens": (c_size_t, [_TEXTS, c_size_t]),
    "nibble_texts_log_probabilities": (c_char_p, [_TEXTS, c_size_t]),
    "nibble_texts_tool_calls": (c_char_p, [_TEXTS, c_size_t]),
    "nibble_texts_free": (None, [_TEXTS]),
    "nibble_openai": (c_int, [_MODEL, c_char_p, c_char_p, EVENT, c_void_p, _OWNED]),
    "nibble_embed": (c_int, [_MODEL, POINTER(Input), c_size_t, POINTER(ReadOptions), POINTER(_FLOATS), _SIZE, _SIZE]),
    "nibble_classify": (c_int, [_MODEL, POINTER(Input), POINTER(Input), c_size_t, POINTER(ReadOptions), _OWNED]),
    "nibble_score": (c_int, [_MODEL, POINTER(Input), POINTER(Input), c_size_t, POINTER(Likelihood)]),
    "nibble_forward": (c_int, [_MODEL, _IDS, c_size_t, _IDS, c_size_t, POINTER(_FLOATS), _SIZE, _SIZE]),
    "nibble_quantize": (c_int, [c_char_p, c_char_p, c_char_p, POINTER(QuantizeOptions), _OWNED]),
    "nibble_dequantize": (c_int, [c_char_p, WEIGHTS, c_void_p]),
    "nibble_recipes": (c_int, [_OWNED]),
    "nibble_evaluate": (c_int, [_MODEL, c_char_p, c_size_t, POINTER(EvaluateOptions), _OWNED]),
    "nibble_compare": (c_int, [c_char_p, POINTER(c_char_p), c_size_t, c_char_p, c_size_t, POINTER(EvaluateOptions),
                               POINTER(QuantizeOptions), _OWNED]),
    **{f"{name}_init": (None, [POINTER(struct), c_size_t])
       for name, struct in STRUCTS.items() if name.endswith("_options")},
}


def _load() -> ctypes.CDLL:
    """The library that NIBBLE_LIBRARY names, that of this package, or that of the system."""
    here = pathlib.Path(__file__).parent / "libnibble.so"
    named = os.environ.get("NIBBLE_LIBRARY")
    library = ctypes.CDLL(named or (str(here) if here.exists() else "libnibble.so.0"))
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


lib = _load()


def defaults(struct: type[Structure]) -> Any:
    """Options with the library's defaults."""
    name = next(name for name, known in STRUCTS.items() if known is struct)
    options = struct()
    getattr(lib, f"{name}_init")(ctypes.byref(options), ctypes.sizeof(options))
    return options


def taken_text(owned: c_void_p) -> str:
    """A text of the library, which is released."""
    try:
        return ctypes.string_at(owned.value).decode() if owned.value else ""
    finally:
        lib.nibble_free(owned)
