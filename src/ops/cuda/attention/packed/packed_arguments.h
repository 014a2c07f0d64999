#pragma once

#include "ops/cuda/attention/packed/packed_attention.h"

namespace nibble::ops::cuda::packed {

inline constexpr float kLog2E = 1.44269504088896341f;

/// Throws kUsage for shapes that packed_attention() refuses.
void check_shape(const PackedAttention& shape);

/// What the kernels of packed attention are given. One block takes one tile and one head: number
/// tile * heads + head.
struct Arguments {
  const __half* qkv;
  std::int64_t stride;
  const PackedTile* tiles;
  __half* y;
  int heads;
  int group;      // query heads of a KV head
  int keys_at;    // column of the first key head
  int values_at;  // of the first value head
  int head_dim;
  float scale;              // of scores, times log2 e
  std::int32_t* saturated;  // or null
};

/// Throws kUsage for what packed_attention() refuses. Apart from the kernels, whose compiler
/// doesn't take checked formats of messages.
Arguments arguments_of(const PackedAttention& shape, const __half* qkv, std::int64_t stride,
                       const PackedTile* tiles, __half* y);

/// Throws kUsage where packed_attention_int8() does not run.
void check_int8(const PackedAttention& shape);

/// For every head size up to kMaxHeadDim: lanes have the elements, one key comes after another.
void attend_plain(const Arguments& arguments, std::int64_t tiles, cudaStream_t stream);

}  // namespace nibble::ops::cuda::packed
