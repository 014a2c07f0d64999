"""Compressing one layer as another tool does, with that tool's own code: for make_goldens.py.

A case has `config` (quantization_config), the scheme that Nibble gives such a layer, and compress(weight [n, k], name),
which returns the tensors of the layer by the ends of their names, and the weights that the tool reads from them.
"""
import dataclasses
import typing

import torch


@dataclasses.dataclass
class Case:
    config: dict
    scheme: str
    compress: typing.Callable
    n: int = 32
    k: int = 64
    tolerance: float = 0.0  # of Nibble's weights, relative to the largest
    rounds_scales: bool = False
    whole_model: bool = False  # embeddings and the output layer are compressed too
    rounded: typing.Callable = None  # the weights of these tensors with the float16 scales that Nibble keeps


def grid(weight, group, bits, symmetric, group_of):
    """Scales and zero points [n, groups] by the range of each group; float16 scales."""
    groups = int(group_of.max()) + 1
    largest = 2 ** bits - 1
    scales = torch.zeros(weight.shape[0], groups)
    zeros = torch.zeros(weight.shape[0], groups)
    for g in range(groups):
        part = weight[:, group_of == g]
        if symmetric:
            scales[:, g] = part.abs().amax(1) * 2 / largest
            zeros[:, g] = 2 ** (bits - 1)
        else:
            low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
            scales[:, g] = (high - low) / largest
            zeros[:, g] = torch.round(-low / scales[:, g])
    return scales.half().float(), zeros.clamp(1, largest)


def linear(weight):
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight.data = weight.clone()
    return layer


def gptq(bits, group, symmetric, ordered=False, version=1, label=None):
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    from gptqmodel.utils.model import convert_gptq_v2_to_v1_format_module

    class Settings:
        pass

    def compress(weight, name):
        n, k = weight.shape
        size = k if group == -1 else group
        group_of = torch.arange(k) // size
        if ordered:  # layers of one input have one order
            seed = 5 if any(part in name for part in ("q_proj", "k_proj", "v_proj")) else len(name)
            group_of = group_of[torch.randperm(k, generator=torch.Generator().manual_seed(seed))]
        scales, zeros = grid(weight, size, bits, symmetric, group_of)
        module = TorchLinear(bits=bits, group_size=size, sym=symmetric, desc_act=ordered, in_features=k,
                             out_features=n, bias=False, pack_dtype=torch.int32)
        module.pack_original(linear(weight), scales, zeros, group_of.to(torch.int32))
        kept = module.scales
        module.scales = kept.float()
        dequantized = module.dequantize_weight().float().t().contiguous()
        module.scales = kept
        if version == 1:
            settings = Settings()
            settings.bits, settings.pack_dtype = bits, torch.int32
            convert_gptq_v2_to_v1_format_module(module, settings)
        parts = {part: getattr(module, part).clone() for part in ("qweight", "qzeros", "scales", "g_idx")}
        parts["g_idx"] = parts["g_idx"].to(torch.int32)
        return parts, dequantized

    word = "row" if group == -1 else f"g{group}"
    scheme = f"int{bits}-{'sym' if symmetric else 'asym'}-{word}{'-order' if ordered else ''}"
    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": ordered, "sym": symmetric,
              "lm_head": False, "checkpoint_format": label or ("gptq" if version == 1 else "gptq_v2")}
    return Case(config, scheme, compress)


def awq(group, symmetric=False):
    from gptqmodel.nn_modules.qlinear.gemm_awq import AwqGEMMLinear
    from gptqmodel.quantization.awq.utils.packing_utils import dequantize_gemm

    def compress(weight, name):
        n, k = weight.shape
        size = k if group == -1 else group
        scales, zeros = grid(weight, size, 4, symmetric, torch.arange(k) // size)
        module = AwqGEMMLinear.__new__(AwqGEMMLinear)
        torch.nn.Module.__init__(module)
        module.bits, module.group_size, module.in_features, module.out_features = 4, size, k, n
        module.pack(linear(weight), scales.half(), zeros)
        dequantized = dequantize_gemm(module.qweight, module.qzeros, module.scales.float(), 4, size)
        return {part: getattr(module, part).clone() for part in ("qweight", "qzeros", "scales")}, \
            dequantized.float().t().contiguous()

    config = {"quant_method": "awq", "version": "gemm", "bits": 4, "group_size": group, "zero_point": not symmetric,
              "modules_to_not_convert": None}
    word = "row" if group == -1 else f"g{group}"
    return Case(config, f"int4-{'sym' if symmetric else 'asym'}-{word}", compress)


def compressed(layout, weights, scheme, scale_type=torch.float32, inputs=None, **more):
    """compressed-tensors: `weights` are the arguments of QuantizationArgs."""
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    arguments = QuantizationArgs(**weights)
    settings = QuantizationScheme(targets=["Linear"], weights=arguments,
                                  input_activations=QuantizationArgs(**inputs) if inputs else None)
    static = bool(inputs) and not inputs.get("dynamic")

    def compress(weight, name):
        n, k = weight.shape
        strategy = weights["strategy"]
        size = {"tensor": None, "channel": k}.get(strategy, weights.get("group_size"))
        parts = weight.reshape(1, -1) if size is None else weight.reshape(n, k // size, size)
        low, high = parts.amin(-1), parts.amax(-1)
        state = {"weight": weight}
        shared = None
        if strategy == "tensor_group":
            shared = generate_gparam(weight.amin(), weight.amax())
            state["weight_global_scale"] = shared
        scale, zero = calculate_qparams(low, high, arguments, global_scale=shared)
        if layout in ("nvfp4-pack-quantized", "mxfp4-pack-quantized"):
            scale = scale.float()
        else:
            scale = scale.to(scale_type).float()
            if strategy == "tensor":
                scale, zero = scale.reshape(1), zero.reshape(1)
        state["weight_scale"] = scale
        if not weights["symmetric"]:
            state["weight_zero_point"] = zero.to(torch.int8)
        tool = BaseCompressor.get_value_from_registry(layout)
        packed = tool.compress(state, settings)
        dequantized = tool.decompress({key: value.clone() for key, value in packed.items()}, settings)["weight"]
        if layout == "nvfp4-pack-quantized":  # decompress() rounds to bfloat16
            dequantized = nvfp4_weights(packed, settings.weights, n, k)
        elif layout != "mxfp4-pack-quantized":
            packed["weight_scale"] = packed["weight_scale"].to(scale_type)
        if static:
            packed["input_scale"] = torch.tensor([0.05])
        return packed, dequantized.float()

    config = {"quant_method": "compressed-tensors", "format": layout, "quantization_status": "compressed",
              "ignore": ["lm_head"], "config_groups": {"group_0": {
                  "targets": ["Linear"], "weights": dict(weights, dynamic=False), "input_activations": inputs,
                  "output_activations": None}}}
    return Case(config, scheme, compress, **more)


def nvfp4_weights(packed, arguments, n, k):
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization.lifecycle.forward import dequantize

    values = unpack_fp4_from_uint8(packed["weight_packed"], n, k, dtype=torch.float32)
    return dequantize(x_q=values, scale=packed["weight_scale"].float(), args=arguments,
                      global_scale=packed["weight_global_scale"], dtype=torch.float32)


def integers(bits, strategy="group", group=32, symmetric=True):
    return {"num_bits": bits, "type": "int", "symmetric": symmetric, "strategy": strategy,
            "group_size": group if strategy == "group" else None}


def floats(bits, strategy, group=None):
    return {"num_bits": bits, "type": "float", "symmetric": True, "strategy": strategy, "group_size": group}


def older_words(case):
    """The same layer with floor(32 / bits) codes in a word, as versions before 0.16 packed 3 bits."""
    bits = case.config["config_groups"]["group_0"]["weights"]["num_bits"]
    newer = case.compress

    def compress(weight, name):
        from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32
        parts, dequantized = newer(weight, name)
        codes = unpack_from_int32(parts["weight_packed"], bits, weight.shape).long() + 2 ** (bits - 1)
        count = 32 // bits
        codes = torch.nn.functional.pad(codes, (0, -codes.shape[1] % count)).reshape(codes.shape[0], -1, count)
        words = sum(codes[:, :, i] << (bits * i) for i in range(count))
        parts["weight_packed"] = torch.where(words >= 2 ** 31, words - 2 ** 32, words).to(torch.int32)
        return parts, dequantized

    return dataclasses.replace(case, compress=compress)


def bitsandbytes(kind, double, scheme, **more):
    import bitsandbytes.functional as F

    def compress(weight, name):
        packed, state = F.quantize_4bit(weight, blocksize=64, compress_statistics=double, quant_type=kind)
        dequantized = F.dequantize_4bit(packed, state)
        parts = {"weight": packed}
        parts.update({f"weight.{key}": value for key, value in state.as_dict(packed=True).items()})
        return parts, dequantized.float()

    def rounded(parts, shape):
        state = F.QuantState.from_dict({key.removeprefix("weight."): value for key, value in parts.items()
                                        if key != "weight"}, device="cpu")
        scales = state.absmax
        if state.nested:
            scales = F.dequantize_blockwise(state.absmax, state.state2) + state.offset
        codes = torch.stack([parts["weight"] >> 4, parts["weight"] & 15], -1).flatten().long()
        values = state.code[codes].reshape(-1, 64)
        whole = (values * scales.float()[:, None]).reshape(shape)
        assert torch.equal(whole, F.dequantize_4bit(parts["weight"], state))
        return (values * scales.half().float()[:, None]).reshape(shape)

    config = {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False, "bnb_4bit_quant_type": kind,
              "bnb_4bit_use_double_quant": double, "bnb_4bit_compute_dtype": "float32",
              "bnb_4bit_quant_storage": "uint8", "llm_int8_skip_modules": None}
    return Case(config, scheme, compress, tolerance=2 ** -11, rounds_scales=True, rounded=rounded, **more)


def mlx(bits, group, kind="float16", trained=False, zeros="min"):
    """MLX's affine mode. `trained`: biases that are no multiples of the scales."""
    import mlx.core as mx
    import numpy as np

    def compress(weight, name):
        stored = mx.array(weight.numpy()).astype(getattr(mx, kind))
        words, scales, biases = mx.quantize(stored, group_size=group, bits=bits)
        if trained:
            biases = (biases.astype(mx.float32) + 0.4 * mx.abs(scales.astype(mx.float32))).astype(biases.dtype)
        whole = mx.dequantize(words, scales.astype(mx.float32), biases.astype(mx.float32), group_size=group, bits=bits)
        halves = {mx.float16: torch.float16, mx.bfloat16: torch.bfloat16}[scales.dtype]
        as_torch = lambda array: torch.from_numpy(np.array(array.astype(mx.float32))).to(halves)
        parts = {"weight": torch.from_numpy(np.array(words)), "scales": as_torch(scales), "biases": as_torch(biases)}
        return parts, torch.from_numpy(np.array(whole))

    def same(parts, shape):  # but for the table of embeddings, which write_model rounds
        scales, biases = (mx.array(parts[part].float().numpy()) for part in ("scales", "biases"))
        whole = mx.dequantize(mx.array(parts["weight"].numpy()), scales, biases, group_size=group, bits=bits)
        return torch.from_numpy(np.array(whole)).reshape(shape)

    held = bits if bits in (2, 3, 4, 8) else 8
    config = {"quant_method": "mlx", "group_size": group, "bits": bits}
    return Case(config, f"int{held}-{zeros}-g{group}", compress, rounded=same, whole_model=True)


def mlx_fp4(mode, group):
    """MLX's modes of 4-bit floats."""
    import mlx.core as mx
    import numpy as np

    def compress(weight, name):
        words, scales = mx.quantize(mx.array(weight.numpy()), group_size=group, bits=4, mode=mode)
        whole = mx.dequantize(words, scales, group_size=group, bits=4, mode=mode, dtype=mx.float32)
        parts = {"weight": torch.from_numpy(np.array(words)), "scales": torch.from_numpy(np.array(scales))}
        return parts, torch.from_numpy(np.array(whole))

    config = {"quant_method": "mlx", "group_size": group, "bits": 4, "mode": mode}
    return Case(config, mode, compress, whole_model=True)


TOKENS = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}
STATIC = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "tensor", "dynamic": False}
# Made when they are asked for: each needs the tool that it is of.
LAYERS = {
    "gptq-2-asym-g16": lambda: gptq(2, 16, False),
    "gptq-3-asym-g32-order": lambda: gptq(3, 32, False, ordered=True),
    "gptq-3-sym-row-v2": lambda: gptq(3, -1, True, version=2),
    "gptq-4-sym-g32": lambda: gptq(4, 32, True),
    "gptq-4-sym-g32-mislabelled": lambda: gptq(4, 32, True, version=2, label="gptq"),
    "gptq-4-asym-g32-v2": lambda: gptq(4, 32, False, version=2),
    "gptq-4-asym-g32-order": lambda: gptq(4, 32, False, ordered=True),
    "gptq-8-asym-g64": lambda: gptq(8, 64, False),
    "gptq-8-sym-row": lambda: gptq(8, -1, True),
    "awq-g32": lambda: awq(32),
    "awq-row": lambda: awq(-1),
    "awq-sym-g16": lambda: awq(16, symmetric=True),
    "ct-pack-4-sym-g32": lambda: compressed("pack-quantized", integers(4), "int4-sym-g32", torch.float16),
    "ct-pack-4-asym-g32": lambda: compressed("pack-quantized", integers(4, symmetric=False), "int4-asym-g32", torch.bfloat16),
    "ct-pack-3-asym-g32": lambda: compressed("pack-quantized", integers(3, symmetric=False), "int3-asym-g32", torch.float16),
    "ct-pack-3-sym-older": lambda: older_words(compressed("pack-quantized", integers(3), "int3-sym-g32", torch.float16)),
    "ct-pack-2-channel": lambda: compressed("pack-quantized", integers(2, "channel"), "int2-sym-row", torch.float16),
    "ct-pack-8-float-scales": lambda: compressed("pack-quantized", integers(8), "int8-sym-g32", tolerance=2 ** -11,
                                         rounds_scales=True),
    "ct-int-w8a8": lambda: compressed("int-quantized", integers(8, "channel"), "int8-sym-row-a8", torch.float16,
                              TOKENS),
    "ct-int-static": lambda: compressed("int-quantized", integers(8, "channel"), "int8-sym-row-a8s", torch.float16, STATIC),
    "ct-int-tensor": lambda: compressed("int-quantized", integers(8, "tensor"), "int8-sym-row", torch.float16),
    "ct-naive-4": lambda: compressed("naive-quantized", integers(4, symmetric=False), "int4-asym-g32", torch.float16),
    "ct-fp8-channel": lambda: compressed("float-quantized", floats(8, "channel"), "fp8-row", torch.bfloat16),
    "ct-fp8-tensor": lambda: compressed("float-quantized", floats(8, "tensor"), "fp8-row-afp8", torch.bfloat16,
                                {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "token",
                                 "dynamic": True}),
    "ct-nvfp4": lambda: compressed("nvfp4-pack-quantized", floats(4, "tensor_group", 16), "nvfp4", tolerance=2 ** -22),
    "ct-mxfp4": lambda: compressed("mxfp4-pack-quantized", floats(4, "group", 32), "mxfp4"),
    "bnb-nf4": lambda: bitsandbytes("nf4", False, "lut4-nf4-g64"),
    "bnb-nf4-double": lambda: bitsandbytes("nf4", True, "lut4-nf4-g64"),
    "bnb-fp4": lambda: bitsandbytes("fp4", False, "lut4-matrix-g64"),
    "mlx-2-g32": lambda: mlx(2, 32, zeros="sym"),  # of these weights all biases come to the middle
    "mlx-3-g32": lambda: mlx(3, 32),
    "mlx-4-g32": lambda: mlx(4, 32),
    "mlx-4-g64-bf16": lambda: mlx(4, 64, "bfloat16"),
    "mlx-4-g32-trained": lambda: mlx(4, 32, trained=True),
    "mlx-5-g32": lambda: mlx(5, 32),
    "mlx-6-g32": lambda: mlx(6, 32),
    "mlx-8-g64": lambda: mlx(8, 64),
    "mlx-mxfp4": lambda: mlx_fp4("mxfp4", 32),
    "mlx-nvfp4": lambda: mlx_fp4("nvfp4", 16),
}

MODELS = {
    "gptq": lambda: gptq(4, 32, False, ordered=True),
    "gptq-v2": lambda: gptq(8, -1, True, version=2),
    "gptq-3": lambda: gptq(3, 32, False),
    "awq": lambda: awq(32),
    "ct-pack": lambda: compressed("pack-quantized", integers(4, symmetric=False), "int4-asym-g32", torch.float16),
    "ct-int": lambda: compressed("int-quantized", integers(8, "channel"), "int8-sym-row", torch.float16),
    "ct-w8a8": lambda: compressed("int-quantized", integers(8, "channel"), "int8-sym-row-a8", torch.float16, TOKENS),
    "ct-fp8": lambda: compressed("float-quantized", floats(8, "channel"), "fp8-row", torch.bfloat16),
    "ct-nvfp4": lambda: compressed("nvfp4-pack-quantized", floats(4, "tensor_group", 16), "nvfp4"),
    "ct-mxfp4": lambda: compressed("mxfp4-pack-quantized", floats(4, "group", 32), "mxfp4"),
    "bnb-nf4": lambda: bitsandbytes("nf4", True, "lut4-nf4-g64"),
    "bnb-fp4": lambda: bitsandbytes("fp4", False, "lut4-matrix-g64"),
    "mlx": lambda: mlx(4, 32),
}
