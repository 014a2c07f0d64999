#pragma once

#include <cstdint>
#include <vector>

#include <cuda_runtime_api.h>

#include "core/float16.h"
#include "ops/cuda/elementwise/input_target.h"
#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/packed/unit_format.h"

/// Linear layers for more tokens than small_batch.h takes well and fewer than gemm.h: y = x W^T
/// from packed weights, on sm_90a.
///
/// Weights go from shared memory into registers, become INT8 or float16 there, and are the left
/// operand of products of warpgroups (device_code/wgmma.cuh); tokens are the columns of the right
/// one, which all warps of a thread block share. INT4 takes activations of 16 bits as float16, all
/// others as two INT8 digits to the base 255 in two columns. Every cluster of thread blocks takes
/// an equal number of row tiles; warpgroups, and the blocks of a cluster, divide k, and what they
/// have of a result is added in a fixed order.
namespace nibble::ops::cuda {

/// Activations in tile order: float16 (InputForm::kFloat16Tiles, or kFloat16Summed), or integers
/// (InputForm::kByteTiles).
struct TileActivations {
  const core::Fp16* values = nullptr;  // [m][blocks * 128], 16-byte aligned; or null
  const float* sums = nullptr;         // with values: InputTarget::sums, or null
  int digits = 2;                      // rows of codes for each token: 255 * first + second, or one
  const std::int8_t* codes = nullptr;  // [m * digits][blocks * 128], 16-byte aligned
  const float* scales = nullptr;       // [m][blocks], or [m]: x = scale * code
  bool scale_of_token = false;         // which of the two
};

struct MediumBatchProblem {
  UnitsView weight;
  TileActivations x;
  std::int64_t m = 0;  // 1 to max_medium_batch_columns() / digits
  GemmOutput output;   // pairs where medium_batch_gates()
};

/// How weights of this format take 16-bit activations of m tokens fastest: as float16, with sums
/// where there are no zeros, or as two digits. Weights that take float16 of some tokens take it of
/// all, and digits of 16 tokens at the most.
InputForm medium_batch_input(const UnitFormat& format, std::int64_t m);

/// The most columns of the right operand, tokens times digits (two for float16, too), for which
/// registers suffice.
constexpr int max_medium_batch_columns(int digits) {
  return digits == 2 ? 128 : 32;
}

/// How a matrix is divided. Results depend on it in their last bits.
struct MediumBatchSchedule {
  int row_groups = 1;  // of 64 rows that a thread block multiplies at a time: 1, 2 or 4, of which
                       // more than 64 columns take 2
  int cluster = 1;     // thread blocks that divide k: 1 or 2
  int blocks = 1;      // thread blocks, a multiple of `cluster`
};

/// Whether the current device runs them: they are for sm_90a only.
bool medium_batch_runs();

/// Whether there are kernels for weights of this format.
bool medium_batch_knows(const UnitFormat& format);

/// Whether the current device has kernels for weights of this format.
bool has_medium_batch(const UnitFormat& format);

/// Whether results in pairs can become HalfOutput: of m tokens in float16, where a thread of this
/// schedule has both rows of a pair.
bool medium_batch_gates(const UnitFormat& format, const MediumBatchSchedule& schedule,
                        std::int64_t m);

/// The schedules that there are on a device of so many multiprocessors.
std::vector<MediumBatchSchedule> medium_batch_schedules(int multiprocessors);

/// The one for a weight of this size.
MediumBatchSchedule medium_batch_schedule(const UnitsView& weight, int multiprocessors);

/// Starts the layer on `stream`. Reads the weight at once and all else after the kernels before it
/// in the stream have ended (dependent_launch.cuh).
void medium_batch(const MediumBatchProblem& problem, const MediumBatchSchedule& schedule,
                  cudaStream_t stream);

}  // namespace nibble::ops::cuda
