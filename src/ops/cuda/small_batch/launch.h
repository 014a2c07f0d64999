#pragma once

#include "ops/cuda/small_batch/layer_arguments.h"
#include "ops/cuda/small_batch/small_batch.h"

/// Between the checks of small_batch.cpp and the kernels of small_batch.cu.
namespace nibble::ops::cuda {

/// Whether there is a decoder (decoders.cuh) for such codes.
constexpr bool has_decoder(CodeKind codes) {
  return codes == CodeKind::kInt4 || codes == CodeKind::kInt4WithZeros ||
         codes == CodeKind::kInt8 || codes == CodeKind::kInt8WithZeros ||
         codes == CodeKind::kInt4WithShifts || codes == CodeKind::kInt8WithShifts ||
         codes == CodeKind::kBook || has_planes(codes);
}

/// Columns of a launch, in eights: as many as leave its warps enough registers. 0: no decoder.
constexpr int max_small_batch_columns(CodeKind codes, std::int64_t groups, int digits) {
  if (!has_decoder(codes) || (has_planes(codes) && groups > 4)) {
    return 0;
  }
  if (digits == 1 && (has_planes(codes) || has_shifts(codes))) {  // their inputs have 16 bits
    return 0;
  }
  if (codes == CodeKind::kInt4 && groups == 1 && digits == 2) {
    return 4;
  }
  return groups <= 4 ? 2 : 1;
}

inline constexpr int kSmallBatchMaxStages = 8;

/// Chunks of 128 inputs of float32 for which a block of the current device has shared memory beside
/// its rings (float_inputs.cuh); 0 before sm_90.
int max_float_chunks();

/// Rows [m][columns] that become activations (FloatRows); columns are a multiple of four.
struct RowsToRound {
  const float* x = nullptr;       // or null: there are codes
  const float* weight = nullptr;  // of their RMSNorm, or null: as they are
  float eps = 0.0f;
  int columns = 0;
  float clip = 1.0f;                     // of one digit
  const std::uint16_t* order = nullptr;  // or null
};

struct SmallBatchArguments {
  LayerArguments layer;
  const std::int8_t* codes = nullptr;
  const float* scales = nullptr;
  RowsToRound rows;
  float* y = nullptr;
  int m = 0;
  int ldy = 0;
  int scales_each = 1;  // of a token: 1 or one for each block
  int stages = 0;
  int add = 0;      // whether the result is added to what y holds
  HalfOutput half;  // where y is null
};

/// A weight's rows, shared by so many thread blocks.
LayerArguments layer_arguments(const UnitsView& weight, const float* bias, int blocks);

void launch_small_batch(const SmallBatchArguments& arguments, CodeKind codes, std::int64_t groups,
                        int digits, const SmallBatchSchedule& schedule, cudaStream_t stream);
/// Those of codes in planes, of two digits.
void launch_plane_integers(const SmallBatchArguments& arguments, CodeKind codes,
                           std::int64_t groups, const SmallBatchSchedule& schedule,
                           cudaStream_t stream);
void launch_plane_books(const SmallBatchArguments& arguments, CodeKind codes, std::int64_t groups,
                        const SmallBatchSchedule& schedule, cudaStream_t stream);

}  // namespace nibble::ops::cuda
