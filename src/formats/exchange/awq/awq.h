#pragma once

#include <memory>

#include "formats/exchange/exchange.h"

namespace nibble::formats::exchange {

/// Checkpoints of AWQ (arXiv 2306.00978) in the layout that AutoAWQ calls "gemm", 4 bits:
///
///   qweight  I32 [k, n / 8]        codes 0 .. 15, packed along n
///   qzeros   I32 [groups, n / 8]   packed alike; zero points as they are
///   scales   F16 [groups, n]       (or BF16, F32)
///
///   w(n, k) = scales[g, n] * (code(k, n) - zero(g, n))      g = k / group_size
///
/// Eight outputs share a word, in the order in which its kernel wants them:
///
///   bits     0..3  4..7  8..11  12..15  16..19  20..23  24..27  28..31
///   output   0     2     4      6       1       3       5       7
///
/// The layouts gemv, gemv_fast, exllama, marlin and that of llm-awq are refused.
std::unique_ptr<const Reader> make_awq_reader(const core::Json& config);

/// Writes 4 bits in groups, with the zero points of asymmetric grids.
std::unique_ptr<const Writer> make_awq_writer();

}  // namespace nibble::formats::exchange
