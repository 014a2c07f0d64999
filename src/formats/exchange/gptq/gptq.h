#pragma once

#include <memory>

#include "formats/exchange/exchange.h"

namespace nibble::formats::exchange {

/// Checkpoints of GPTQ (arXiv 2210.17323) as AutoGPTQ, GPTQModel and transformers write them, bits
/// b in 2, 3, 4, 8; words and their order as in word_stream.h:
///
///   qweight  I32 [k * b / 32, n]        codes 0 .. 2^b - 1, packed along k
///   qzeros   I32 [groups, n * b / 32]   packed along n: zero - 1 (checkpoint_format "gptq", v1)
///                                       or zero ("gptq_v2")
///   scales   F16 [groups, n]            (or BF16, F32)
///   g_idx    I32 [k]                    the group of each input; missing: input / group_size
///
///   w(n, k) = scales[g, n] * (code(k, n) - zero(g, n))      g = g_idx[k]
///
/// With "sym" every zero is 2^(b-1), so the words themselves say which of the two stands in them,
/// whatever the label. Without it the label decides. 2^b - 1 in a v1 file stands for a zero of 0
/// or of 2^b, depending on who reads it, and is refused.
///
/// With "dynamic" layers may differ in bits and groups; both follow from the shapes of a layer.
std::unique_ptr<const Reader> make_gptq_reader(const core::Json& config);

/// Writes symmetric ones of version 1 in groups or whole rows, each with its g_idx.
std::unique_ptr<const Writer> make_gptq_writer();

}  // namespace nibble::formats::exchange
