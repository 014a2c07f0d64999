#pragma once

#include "ops/cuda/attention/attention.h"

namespace nibble::ops::cuda {

/// append() for layouts in fragments, RoPE of a multiple of 8 elements, heads of 64 in pairs, and
/// rows, norms and key centres at multiples of 16 bytes; false where it does not serve. The same
/// bits as append()'s own kernel, but for norms of heads, whose sums are taken in another order.
bool append_fragments(const AttentionLayer& layer, const float* qkv, const DevicePlan& plan,
                      std::int64_t m, const Queries& queries, std::byte* pages,
                      cudaStream_t stream);

}  // namespace nibble::ops::cuda
