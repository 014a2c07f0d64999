#include "compress/awq/cuda_awq.h"

#include "compress/backend/absent/no_gpu.h"

namespace nibble::compress::cuda {

std::vector<double> scale_errors(CudaContext&, const SetWork&,
                                 std::span<const std::vector<float>>) {
  no_gpu();
}

void clip_set(CudaContext&, SetWork&) {
  no_gpu();
}

}  // namespace nibble::compress::cuda
