#pragma once

#include "ops/cuda/attention/attention.h"

/// Attention over keys and values in plain order, for every head size and type: one warp after
/// another takes a key, its lanes the elements. For what tensor cores do not serve.
namespace nibble::ops::cuda::plain {

void attend_decode(const AttentionLayer& layer, const Queries& queries, const std::byte* pages,
                   const DevicePlan& plan, const AttentionOutput& output, cudaStream_t stream);
void attend_prefill(const AttentionLayer& layer, const Queries& queries, const std::byte* pages,
                    const DevicePlan& plan, const AttentionOutput& output, cudaStream_t stream);

}  // namespace nibble::ops::cuda::plain
