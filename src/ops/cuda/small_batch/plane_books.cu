#include "ops/cuda/small_batch/kernel.cuh"
#include "ops/cuda/small_batch/plane_decoders.cuh"

namespace nibble::ops::cuda {

void launch_plane_books(const SmallBatchArguments& a, CodeKind codes, std::int64_t groups,
                        const SmallBatchSchedule& schedule, cudaStream_t stream) {
  switch (codes) {
    case CodeKind::kBook3:
      return launch_planes<PlaneBookDecoder<3>, CodeKind::kBook3>(a, groups, schedule, stream);
    case CodeKind::kBook2:
      return launch_planes<PlaneBookDecoder<2>, CodeKind::kBook2>(a, groups, schedule, stream);
    default:
      break;  // small_batch() has refused codes without a decoder
  }
}

}  // namespace nibble::ops::cuda
