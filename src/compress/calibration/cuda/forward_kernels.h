#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "core/dtype.h"

/// Kernels of the float32 forward pass. All pointers are of the device; matrices are row-major.
namespace nibble::compress::cuda {

/// Float32 values of `count` elements of float32, float16 or bfloat16.
void to_float(const void* source, core::DType type, std::int64_t count, float* target,
              cudaStream_t stream);

/// Queries and keys of attention (ops::AttentionSpec).
struct Heads {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  const float* inverse_frequency = nullptr;  // [rotary / 2] or null
  std::int64_t rotary = 0;                   // elements of a head that RoPE turns
  float rope_factor = 1.0f;
  const float* q_norm = nullptr;  // [head_dim] or null
  const float* k_norm = nullptr;
  float norm_eps = 1e-6f;
};

/// RMSNorm of each query and key head, then RoPE, in place on qkv
/// [m, (heads + 2 kv_heads) head_dim].
void prepare_heads(const Heads& heads, const std::int32_t* positions, std::int64_t m, float* qkv,
                   cudaStream_t stream);

/// Scores of `batch` heads, [batch, rows, keys], become probabilities: row i, at position
/// first + i, sees keys (first + i - window, first + i]; window 0: all before it.
void masked_softmax(float* scores, std::int64_t batch, std::int64_t rows, std::int64_t keys,
                    std::int64_t first, std::int64_t window, float scale, cudaStream_t stream);

}  // namespace nibble::compress::cuda
