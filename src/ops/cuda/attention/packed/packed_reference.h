#pragma once

#include <cstdint>
#include <vector>

#include "core/float16.h"
#include "ops/cuda/attention/packed/packed_attention.h"

namespace nibble::ops::cuda {

/// Texts that begin at `firsts`, `rows` in all; qkv [rows, stride] as packed_attention() has it.
struct PackedProblem {
  PackedAttention shape;
  std::vector<std::int32_t> firsts;
  std::int64_t rows = 0;
  std::int64_t stride = 0;
  std::vector<core::Fp16> qkv;
};

/// y [rows, heads head_dim] in float64, and by how much a kernel may differ that rounds weights and
/// results to float16: half a unit of the weights, relative down to the normal numbers, and of the
/// result, and what float32 sums of products err by in the scores.
struct PackedReference {
  std::vector<double> y;
  std::vector<double> bounds;
};
PackedReference reference_packed_attention(const PackedProblem& problem);

/// The same of queries and keys that are rounded as packed_attention_int8() does.
PackedReference reference_packed_attention_int8(const PackedProblem& problem);

}  // namespace nibble::ops::cuda
