#include "ops/cuda/attention/packed/packed_arguments.h"

#include "core/error.h"
#include "ops/cuda/attention/attention.h"

namespace nibble::ops::cuda {
namespace {

constexpr float kLog2E = 1.44269504088896341f;

void check_shape(const PackedAttention& shape) {
  core::require(shape.head_dim > 0 && shape.head_dim <= kMaxHeadDim, core::ErrorKind::kUsage,
                "heads of {} elements can't be handled on the GPU: 1 to {} are", shape.head_dim,
                kMaxHeadDim);
  core::require(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0, core::ErrorKind::kUsage,
                "{} query heads can't share {} KV heads", shape.heads, shape.kv_heads);
  core::require(shape.scale > 0.0f, core::ErrorKind::kUsage,
                "the scale of scores is {}: it must be positive", shape.scale);
  core::require(shape.tile_rows == 32 || shape.tile_rows == 64 || shape.tile_rows == 128,
                core::ErrorKind::kUsage, "tiles of {} rows: they have 32, 64 or 128",
                shape.tile_rows);
}

void check_alignment(const __half* qkv, std::int64_t stride, const __half* y) {
  const auto aligned = [](const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
  };
  core::require(aligned(qkv) && aligned(y) && stride % 8 == 0, core::ErrorKind::kUsage,
                "rows of packed attention must lie at multiples of 16 bytes");
}

template <typename T>
packed::TypedArguments<T> typed_arguments(const PackedAttention& shape, const T* qkv,
                                          std::int64_t stride, const PackedTile* tiles, T* y) {
  const std::int64_t keys_at = shape.heads * shape.head_dim;
  return {qkv,
          stride,
          tiles,
          y,
          static_cast<int>(shape.heads),
          static_cast<int>(shape.heads / shape.kv_heads),
          static_cast<int>(keys_at),
          static_cast<int>(keys_at + shape.kv_heads * shape.head_dim),
          static_cast<int>(shape.head_dim),
          shape.scale * kLog2E,
          shape.saturated};
}

}  // namespace

bool packed_attention_runs(const PackedAttention& shape) {
  switch (shape.head_dim) {
    case 16:
    case 32:
    case 64:
    case 80:
    case 96:
    case 128:
      return true;
    default:
      return false;
  }
}

bool packed_attention_int8_runs(const PackedAttention& shape) {
  return packed_attention_runs(shape) && shape.head_dim % 32 == 0;
}

namespace packed {

Arguments arguments_of(const PackedAttention& shape, const __half* qkv, std::int64_t stride,
                       const PackedTile* tiles, __half* y) {
  check_shape(shape);
  if (packed_attention_runs(shape)) {
    check_alignment(qkv, stride, y);
  }
  return typed_arguments(shape, qkv, stride, tiles, y);
}

FloatArguments arguments_of(const PackedAttention& shape, const float* qkv, std::int64_t stride,
                            const PackedTile* tiles, float* y) {
  check_shape(shape);
  return typed_arguments(shape, qkv, stride, tiles, y);
}

void check_int8(const PackedAttention& shape) {
  core::require(packed_attention_int8_runs(shape), core::ErrorKind::kUsage,
                "scores of heads of {} elements can't be products of INT8: those of 32, 64, 96 "
                "and 128 can",
                shape.head_dim);
}

}  // namespace packed

}  // namespace nibble::ops::cuda
