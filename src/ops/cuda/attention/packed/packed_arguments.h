#pragma once

#include "ops/cuda/attention/packed/packed_attention.h"

namespace nibble::ops::cuda::packed {

/// What the kernels of packed attention are given. One block takes one tile and one head: number
/// tile * heads + head.
template <typename T>
struct TypedArguments {
  const T* qkv;
  std::int64_t stride;
  const PackedTile* tiles;
  T* y;
  int heads;
  int group;      // query heads of a KV head
  int keys_at;    // column of the first key head
  int values_at;  // of the first value head
  int head_dim;
  float scale;              // of scores, times log2 e
  std::int32_t* saturated;  // or null
};
using Arguments = TypedArguments<__half>;
using FloatArguments = TypedArguments<float>;

/// Throws kUsage for what packed_attention() refuses. Apart from the kernels, whose compiler
/// doesn't take checked formats of messages.
Arguments arguments_of(const PackedAttention& shape, const __half* qkv, std::int64_t stride,
                       const PackedTile* tiles, __half* y);
/// The same for packed_attention_float().
FloatArguments arguments_of(const PackedAttention& shape, const float* qkv, std::int64_t stride,
                            const PackedTile* tiles, float* y);

/// Throws kUsage where packed_attention_int8() does not run.
void check_int8(const PackedAttention& shape);

/// For every head size up to kMaxHeadDim: lanes have the elements, one key comes after another.
void attend_plain(const Arguments& arguments, std::int64_t tiles, cudaStream_t stream);

}  // namespace nibble::ops::cuda::packed
