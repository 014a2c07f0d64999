#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "core/dtype.h"

/// Kernels of attention whose scores are whole matrices, between products of cuBLAS. All pointers
/// are of the device; matrices are row-major. Nothing waits or allocates.
namespace nibble::ops::gradient::cuda {

/// Queries and keys of attention (AttentionSpec).
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
void turn_heads(const Heads& heads, const std::int32_t* positions, std::int64_t m, float* qkv,
                cudaStream_t stream);

/// dqkv += the gradient at qkv, as it was before, from that behind turn_heads(), `gradient`, of
/// which queries and keys are turned back in place.
void turn_heads_back(const Heads& heads, const std::int32_t* positions, std::int64_t m,
                     const float* qkv, float* gradient, float* dqkv, cudaStream_t stream);

/// Scores q . k of `batch` heads, [batch, rows, keys]: row i stands at position first + i.
struct Scores {
  std::int64_t batch = 0;
  std::int64_t rows = 0;
  std::int64_t keys = 0;
  std::int64_t first = 0;
  bool bidirectional = false;  // as the mask of AttentionSpec
  std::int64_t window = 0;
  float scale = 1.0f;    // of AttentionSpec
  float softcap = 0.0f;  // 0: none
};

/// probabilities = softmax(cap(scale scores)) over the keys that a row sees, 0 elsewhere; of
/// float32 (which may be the scores' own memory) or bfloat16.
void masked_softmax(const Scores& shape, const float* scores, void* probabilities, core::DType type,
                    cudaStream_t stream);

/// `probabilities` become the gradient at scale q . k, from themselves, the scores that they were
/// made of (read where there is a softcap), and their own gradient:
/// P (dP - rowsum(P dP)), times the slope of the cap.
void masked_softmax_back(const Scores& shape, const float* scores, const float* gradient,
                         void* probabilities, core::DType type, cudaStream_t stream);

}  // namespace nibble::ops::gradient::cuda
