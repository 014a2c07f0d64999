#pragma once

#include <memory>

#include "formats/exchange/exchange.h"

namespace nibble::formats::exchange {

/// Checkpoints of bitsandbytes in 4 bits, NF4 and FP4 (QLoRA, arXiv 2305.14314):
///
///   weight            U8 [n * k / 2, 1]    codes of the rows one after another; of two codes the
///                                          first lies in the HIGH nibble
///   weight.quant_map  F32 [16]             the value of each code
///   weight.absmax     F32 [n * k / block]  the scale of each block of codes
///   weight.quant_state.bitsandbytes__nf4 (or __fp4)
///                     U8                   JSON: blocksize, shape [n, k]
///
/// With double quantization absmax is U8, and a scale is
///
///   nested_quant_map[absmax[i]] * nested_absmax[i / nested_blocksize] + nested_offset
///
/// with weight.nested_quant_map F32 [256], weight.nested_absmax F32, and the other two in the JSON.
///
///   w = quant_map[code] * scale
///
/// A book other than NF4 becomes a book of the matrix. Scales are float32 and become float16.
/// Refused: blocks that go over the end of a row, 8 bits (LLM.int8()), and other types of storage
/// than U8.
std::unique_ptr<const Reader> make_bitsandbytes_reader(const core::Json& config);

}  // namespace nibble::formats::exchange
