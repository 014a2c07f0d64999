#pragma once

#include <cstdint>
#include <optional>

#include <cuda_runtime_api.h>

#include "ops/cuda/elementwise/elementwise.h"
#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/packed/unit_format.h"

/// Linear layers for few tokens, bound by the bandwidth of memory: y = x W^T from packed weights
/// and integer activations.
///
/// Weights are the left operand of integer tensor instructions, tokens the eight columns of the
/// right one. Activations of 16 bits are two INT8 digits to the base 255 in two columns, so that
/// products are exact and no weight is ever converted to a floating number. Every thread block
/// takes an equal number of row tiles, and every warp of it an equal run of pieces of them
/// (share.cuh), whose sums are added in a fixed order. How the work is cut depends on the weight
/// alone: a token's result is the same in every batch.
namespace nibble::ops::cuda {

inline constexpr int kSmallBatchMaxWarps = 12;

/// Warps of a thread block at the most. Codes in planes leave registers for more.
constexpr int small_batch_max_warps(CodeKind codes) {
  return has_planes(codes) ? 16 : kSmallBatchMaxWarps;
}

/// Integer activations in lane order: the 128 inputs of a block stand at 32 t + 8 h + 4 e + n, with
/// k and n as in unit_format.h for 8 bits.
struct LaneActivations {
  int digits = 2;                      // rows of codes for each token: 255 * first + second, or one
  const std::int8_t* codes = nullptr;  // [m * digits][blocks * 128]
  const float* scales = nullptr;       // [m][blocks], or [m]: x = scale * code
  bool scale_of_token = false;         // which of the two; but for units of eight groups and one
                                       // digit [m][blocks][8], one for each 16 inputs
};

/// Rows [m][k] of float32 of which the kernel itself makes the activations, with the bits of the
/// operators for rows (elementwise.h, ordered_rows.h): two digits with a scale for each 128 inputs,
/// or one digit with a scale of the token.
struct FloatRows {
  const float* x = nullptr;
  const NormWeights* norm = nullptr;     // whose RMSNorm they are; null: as they are
  const std::uint16_t* order = nullptr;  // of inputs behind the norm (ordered_rows.h), or null
  float clip = 1.0f;                     // of one digit: InputTarget::clip
};

/// What kernels for few tokens read and write beside their weights.
struct FewTokens {
  LaneActivations x;
  FloatRows rows;      // in the place of x.codes, where the kernel makes them
  std::int64_t m = 0;  // tokens
  float* y = nullptr;  // [m][n], rows ldy apart
  std::int64_t ldy = 0;
  const float* bias = nullptr;  // [n] or null
  bool add = false;             // to what y holds
};

/// At most max_small_batch() tokens, of max_float_rows() float32.
struct SmallBatchProblem : FewTokens {
  UnitsView weight;
  HalfOutput half = {};  // where y is null; not of pairs
};

/// How a matrix is divided. Results depend on warps and blocks in their last bits.
struct SmallBatchSchedule {
  int warps = kSmallBatchMaxWarps;  // of a thread block
  int stages = 3;                   // copies in flight for each warp, 2 to 8, if they fit
  int blocks = 1;                   // thread blocks
};

/// The schedule for a weight of this size on a device of so many multiprocessors.
SmallBatchSchedule small_batch_schedule(const UnitsView& weight, int multiprocessors);

/// The most tokens of one launch; 0: it does not know such codes.
std::int64_t max_small_batch(const UnitFormat& format, int digits);

/// The most rows of float32 that the layer itself can make activations of, which saves a kernel:
/// of their norm of this kind, or of what they are.
std::int64_t max_float_rows(const UnitsView& weight, std::optional<NormKind> norm);

/// Starts the layer on `stream`. Reads the weight at once and all else after the kernels before it
/// in the stream have ended (dependent_launch.cuh).
void small_batch(const SmallBatchProblem& problem, const SmallBatchSchedule& schedule,
                 cudaStream_t stream);

}  // namespace nibble::ops::cuda
