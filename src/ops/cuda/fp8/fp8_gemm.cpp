#include "ops/cuda/fp8/fp8_gemm.h"

#include "core/error.h"
#include "ops/cuda/gemm/gemm_launchers.h"

namespace nibble::ops::cuda {
namespace {

void require_rows_of_bytes(const GemmWeights& weights) {
  core::require(weights.units.format.codes == CodeKind::kBytes && weights.row_scale,
                core::ErrorKind::kFailed, "fp8_gemm: E4M3 weights have a scale for each row");
}

}  // namespace

void fp8_gemm_e4m3(const GemmPlan& plan, const GemmWeights& weights, const Int8Inputs& inputs,
                   const GemmOutput& output, cudaStream_t stream) {
  require_rows_of_bytes(weights);
  core::require(plan.wgmma && inputs.group_stride == 0, core::ErrorKind::kFailed,
                "fp8_gemm: E4M3 inputs, with a scale for each token, need warpgroup products");
  launch_gemm(wgmma_e4m3_by_row, plan, weights, nullptr, GemmInputs::kBytes, inputs, output,
              stream);
}

void fp8_gemm_half(const GemmPlan& plan, const GemmWeights& weights, const HalfInputs& inputs,
                   const GemmOutput& output, cudaStream_t stream) {
  require_rows_of_bytes(weights);
  launch_gemm(plan.wgmma ? wgmma_half_from_e4m3 : mma_half_from_e4m3, plan, weights, inputs, output,
              stream);
}

}  // namespace nibble::ops::cuda
