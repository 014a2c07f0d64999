#!/usr/bin/env python3
"""Writes gguf_blocks.bin: random blocks of every supported GGUF block type with the values that the
independent NumPy implementation of the PyPI package `gguf` gives them.

    pip install gguf==0.19.0 && python3 make_goldens.py

Layout, little-endian, one record for each type:
    u32 type | u32 blocks | bytes of the blocks | f32 values of all their elements
"""
import pathlib
import struct

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as Type

# Byte offsets of the float16 scales in a block. They are made finite; codes stay random.
FLOAT16_AT = {
    Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
    Type.IQ4_NL: [0], Type.IQ4_XS: [0], Type.MXFP4: [],
}


def random_blocks(rng, kind, count):
    _, block_bytes = GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, size=(count, block_bytes), dtype=np.uint8)
    for at in FLOAT16_AT[kind]:
        high = blocks[:, at + 1]
        high[(high & 0x7C) == 0x7C] &= 0xBF  # exponent 31 (infinity, NaN) becomes 15
    if kind is Type.MXFP4:
        blocks[:, 0] = np.minimum(blocks[:, 0], 252)  # 6 * 2^125 is finite
        blocks[:4, 0] = [0, 1, 2, 252]
    elif FLOAT16_AT[kind]:
        at = FLOAT16_AT[kind][0]
        blocks[0, at : at + 2] = [0x01, 0x80]  # the smallest subnormal, negative
        blocks[1, at : at + 2] = [0xFF, 0x7B]  # 65504
    return blocks


def main():
    rng = np.random.default_rng(20240607)
    out = bytearray()
    for kind in FLOAT16_AT:
        elements, _ = GGML_QUANT_SIZES[kind]
        blocks = random_blocks(rng, kind, 8)
        values = gguf.dequantize(blocks, kind).astype("<f4")
        assert values.size == 8 * elements and np.isfinite(values).all(), kind
        out += struct.pack("<II", int(kind), len(blocks)) + blocks.tobytes() + values.tobytes()
    path = pathlib.Path(__file__).with_name("gguf_blocks.bin")
    path.write_bytes(out)
    print(f"{path}: {len(out)} bytes")


if __name__ == "__main__":
    main()
