#include "ops/cuda/device_code/tensor_map.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include "core/error.h"
#include "device/cuda/check.h"

namespace nibble::ops::cuda {
namespace {

// The driver is found when the program runs: it is not there where no GPU is.
PFN_cuTensorMapEncodeTiled_v12000 find_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  device::cuda::check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                       cudaEnableDefault, &found),
                      "cudaGetDriverEntryPointByVersion");
  core::require(found == cudaDriverEntryPointSuccess && function != nullptr,
                core::ErrorKind::kFailed,
                "the driver has no cuTensorMapEncodeTiled; use a driver of CUDA 12 or later");
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

CUtensorMapDataType type_of(int value_bytes) {
  switch (value_bytes) {
    case 1:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case 2:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    default:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  }
}

}  // namespace

CUtensorMap make_tensor_map(const TensorBoxes& boxes) {
  static const PFN_cuTensorMapEncodeTiled_v12000 encode = find_encoder();
  const cuuint64_t extents[2] = {static_cast<cuuint64_t>(boxes.columns),
                                 static_cast<cuuint64_t>(boxes.rows)};
  const cuuint64_t pitch[1] = {static_cast<cuuint64_t>(boxes.row_bytes)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(boxes.box_bytes / boxes.value_bytes),
                             static_cast<cuuint32_t>(boxes.box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  CUtensorMap map{};
  const CUresult status =
      encode(&map, type_of(boxes.value_bytes), 2, const_cast<void*>(boxes.data), extents, pitch,
             box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             boxes.box_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  core::require(status == CUDA_SUCCESS, core::ErrorKind::kFailed,
                "cuTensorMapEncodeTiled failed with error {} for a matrix of {} x {}, {} bytes a "
                "row, at {}",
                static_cast<int>(status), boxes.rows, boxes.columns, boxes.row_bytes, boxes.data);
  return map;
}

}  // namespace nibble::ops::cuda
