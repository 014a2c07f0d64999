"""Lets transformers read folders in Nibble's format.

    import nibble.transformers
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("llama-w4")

The model is a plain one: the library decodes the packed layers when it is loaded. What a recipe does to the inputs of
layers (`-a8`) is no part of it. For models that stay packed, nibble.LLM.
"""
from __future__ import annotations

import os
import re
from typing import Any

try:
    import torch
    from transformers.pytorch_utils import Conv1D
    from transformers.quantizers import HfQuantizer, register_quantization_config, register_quantizer
    from transformers.utils.quantization_config import QuantizationConfigMixin
except ImportError as error:
    raise ImportError("nibble.transformers needs torch and transformers 5: pip install torch transformers") from error

from ._errors import InvalidModelError
from .dequantizing import dequantize

if not hasattr(HfQuantizer, "update_attn_implementation"):
    raise ImportError("nibble.transformers needs a newer transformers (5.24 is tested): pip install -U transformers")

_METHOD = "nibble"
_VERSION = 1
_PARTS = r"\.(codes|scales|units|global|zeros|input_scale|book|permutation|tail_codes|tail_scales|key_centre)$"


@register_quantization_config(_METHOD)
class NibbleConfig(QuantizationConfigMixin):
    """quantization_config of such a folder."""

    def __init__(self, layers: dict[str, str], format_version: int = _VERSION, recipe: str = "", **kwargs: Any) -> None:
        self.quant_method = _METHOD
        self.layers, self.format_version, self.recipe = layers, format_version, recipe
        self.dequantize = True  # what comes out is plain

    @property
    def input_rounding(self) -> list[str]:
        """Schemes that round the inputs of layers, which plain layers do not."""
        return sorted({scheme for scheme in self.layers.values() if re.search(r"-a(\d|fp)", scheme)})


@register_quantizer(_METHOD)
class NibbleQuantizer(HfQuantizer):  # type: ignore[misc]
    """Puts decoded weights where the folder has packed ones."""

    requires_calibration = True  # transformers itself can't write such folders

    def validate_environment(self, *_: Any, **__: Any) -> None:
        version = self.quantization_config.format_version
        if version > _VERSION:
            raise InvalidModelError(f"the folder has version {version} of Nibble's format, this package reads {_VERSION}")

    def update_attn_implementation(self, config: Any) -> Any:
        # The one call before files are looked for: the key that turns away a transformers without this module.
        config.__dict__.pop("transformers_weights", None)
        return config

    def _process_model_before_weight_loading(self, model: Any, checkpoint_files: Any = None, **_: Any) -> None:
        if not checkpoint_files:
            raise InvalidModelError("weights of a folder in Nibble's format are read from its files; give its path")
        self._folder = os.path.dirname(os.path.abspath(checkpoint_files[0]))
        self._modules = {name: _module(model, name) for name in self.quantization_config.layers}
        ours = "|".join(re.escape(name) for name in self._modules)
        # Set on the model: the classes are shared. What is left is told as ever.
        model._keys_to_ignore_on_load_missing = {
            *(model._keys_to_ignore_on_load_missing or ()), rf"(^|\.)({ours})\.weight$"}
        model._keys_to_ignore_on_load_unexpected = {*(model._keys_to_ignore_on_load_unexpected or ()), _PARTS}

    def _process_model_after_weight_loading(self, model: Any, **_: Any) -> Any:
        missing = dict(self._modules)

        def put(name: str, weights: Any) -> None:
            module = missing.pop(name)
            values = torch.from_numpy(weights.copy())
            _set_weight(module, values.t() if isinstance(module, Conv1D) else values, name)

        dequantize(self._folder, put)
        if missing:
            raise InvalidModelError(f"the folder has no weights of {', '.join(sorted(missing))}")
        return model

    def is_serializable(self, *_: Any, **__: Any) -> bool:
        return True  # as the plain model that it is

    @property
    def is_trainable(self) -> bool:
        return True


def _module(model: Any, name: str) -> Any:
    """Of a layer's name in the checkpoint, which may lack the model's prefix, or have one that the model lacks."""
    prefix = model.base_model_prefix + "."
    for candidate in (name, prefix + name, name.removeprefix(prefix)):
        try:
            return model.get_submodule(candidate)
        except AttributeError:
            continue
    raise InvalidModelError(f"transformers' {type(model).__name__} has no layer {name}")


def _set_weight(module: Any, values: Any, name: str) -> None:
    old = module.weight
    if old.shape != values.shape:
        raise InvalidModelError(f"{name}: {tuple(values.shape)} weights for a layer of {tuple(old.shape)}")
    device = "cpu" if old.device.type == "meta" else old.device
    module.weight = torch.nn.Parameter(values.to(device=device, dtype=old.dtype), requires_grad=old.requires_grad)
