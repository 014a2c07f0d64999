#pragma once

#include "ops/cuda/attention/attention.h"

namespace nibble::ops::cuda {

/// append() of many rows into pages of float16; false where it does not serve: fewer rows, other
/// layouts, and RoPE whose pairs are not a multiple of 32 elements apart. The same bits as
/// append()'s own kernel.
bool append_prompt(const AttentionLayer& layer, const float* qkv, const DevicePlan& plan,
                   std::int64_t m, const Queries& queries, std::byte* pages, cudaStream_t stream);

}  // namespace nibble::ops::cuda
