#include "ops/cuda/small_batch/kernel.cuh"
#include "ops/cuda/small_batch/plane_decoders.cuh"

namespace nibble::ops::cuda {

void launch_plane_integers(const SmallBatchArguments& a, CodeKind codes, std::int64_t groups,
                           const SmallBatchSchedule& schedule, cudaStream_t stream) {
  switch (codes) {
    case CodeKind::kInt3:
      return launch_planes<PlaneIntDecoder<3>, CodeKind::kInt3>(a, groups, schedule, stream);
    case CodeKind::kInt3WithZeros:
      return launch_planes<PlaneIntDecoder<3>, CodeKind::kInt3WithZeros>(a, groups, schedule,
                                                                         stream);
    case CodeKind::kInt2:
      return launch_planes<PlaneIntDecoder<2>, CodeKind::kInt2>(a, groups, schedule, stream);
    case CodeKind::kInt2WithZeros:
      return launch_planes<PlaneIntDecoder<2>, CodeKind::kInt2WithZeros>(a, groups, schedule,
                                                                         stream);
    default:
      break;  // small_batch() has refused codes without a decoder
  }
}

}  // namespace nibble::ops::cuda
