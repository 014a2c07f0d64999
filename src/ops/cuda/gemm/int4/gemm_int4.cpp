#include "ops/cuda/gemm/int4/gemm_int4.h"

#include "core/error.h"
#include "device/cuda_devices.h"
#include "ops/cuda/device_code/per_device.h"
#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/int4/int4_launchers.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kMajor = 8;  // of the compute capability

GemmLauncher launcher_of(const GemmWeights& weights, const Int4Inputs& inputs) {
  if (inputs.group_stride != 0) {
    return mma_int4_native_by_group_of_both;
  }
  return weights.row_scale ? mma_int4_native_by_row : mma_int4_native_by_group;
}

}  // namespace

bool int4_products_run() {
  return of_current_device([] { return device::current_cuda_device().major == kMajor; });
}

void gemm_int4(const GemmWeights& weights, const Int4Inputs& inputs, const GemmOutput& output,
               cudaStream_t stream) {
  const UnitFormat& format = weights.units.format;
  const bool four_bits =
      format.codes == CodeKind::kInt4 || format.codes == CodeKind::kInt4WithZeros;
  core::require(four_bits && format.groups == 1, core::ErrorKind::kFailed,
                "gemm_int4: it multiplies integers of 4 bits, in groups of 128 and more");
  launch_gemm(launcher_of(weights, inputs), weights, inputs, output, stream);
}

}  // namespace nibble::ops::cuda
