#pragma once

#include <memory>

#include "formats/exchange/exchange.h"

namespace nibble::formats::exchange {

/// Checkpoints of compressed-tensors (llm-compressor writes them), by the "format" of their layers:
///
///   pack-quantized            weight_packed I32 [n, k * b / 32]: code = q + 2^(b-1), packed along
///   k
///                             (word_stream.h; older files: 32 / b whole codes in a word);
///                             weight_zero_point I32 [n * b / 32, groups], packed along n alike
///   int-, naive-quantized     weight I8 [n, k]; weight_zero_point I8 as the scales
///   float-, naive-quantized   weight F8_E4M3 [n, k]
///   nvfp4-pack-quantized      weight_packed U8 [n, k / 2], E2M1 codes, the first in the low
///   nibble;
///                             weight_scale F8_E4M3 [n, k / 16], weight_global_scale F32 [1]
///   mxfp4-pack-quantized      the same codes; weight_scale U8 [n, k / 32], exponents (E8M0)
///
///   weight_scale   floats [n, groups], [n, 1] or [1], where nothing else is said
///   weight_shape   I64 [2]: n, k
///   weight_g_idx   I32 [k]: the group of each input, of files with actorder "group"
///
///   w = (q - zero) * scale                              q signed
///   w = E2M1(code) * (E4M3(weight_scale) / global)      nvfp4
///
/// Refused: other formats, layers of several kinds in one model, blocks of 128 x 128, transforms,
/// sparsity, a quantized KV cache. Activations: activation_rule.h.
std::unique_ptr<const Reader> make_compressed_tensors_reader(const core::Json& config);

/// Writes symmetric integers: pack-quantized of 4 and 8 bits, and int-quantized of 8 bits whose
/// inputs are rounded for each token. Zero points are not written: transformers refuses them.
std::unique_ptr<const Writer> make_compressed_tensors_writer();

}  // namespace nibble::formats::exchange
