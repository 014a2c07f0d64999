#pragma once

#include <memory>

#include "formats/exchange/exchange.h"

namespace nibble::formats::exchange {

/// Folders of MLX (mlx-lm; mx.quantize). Mode "affine", bits b in 2, 3, 4, 5, 6, 8, groups of 32,
/// 64 or 128 inputs; words and their order as in word_stream.h:
///
///   weight  U32 [n, k * b / 32]   codes 0 .. 2^b - 1, packed along k
///   scales  F16 [n, groups]       (or BF16, F32), of either sign
///   biases  the same              what code 0 stands for
///
///   w(n, k) = scales[n, g] * code(n, k) + biases[n, g]      g = k / group_size
///
/// config.json has "quantization": {"group_size", "bits"}, and layers of their own under their
/// names. Embeddings are stored so too.
///
/// Groups whose biases are -zero * scale for an integer become asymmetric integers, others have
/// real minima (int4-min-g64). Codes of 5 and 6 bits are held in 8. Without minima the bias becomes
/// the nearest -zero * scale, which MLX's own rule makes it but for the rounding of both numbers.
/// Where it is none (trained biases), codes are then held in 8 bits, of which zero points are
/// finer.
///
/// Modes "mxfp4" and "nvfp4" (no biases; U8 scales [n, k / 32], E8M0, or [n, k / 16], E4M3) are
/// Nibble's mxfp4 and nvfp4, this one with a global scale of 1.
std::unique_ptr<const Reader> make_mlx_reader(const core::Json& config);

/// Writes integers in groups, with biases in float16: exact where these are minima, or where the
/// product of scale and zero point is a float16, as with all symmetric grids.
std::unique_ptr<const Writer> make_mlx_writer();

}  // namespace nibble::formats::exchange
