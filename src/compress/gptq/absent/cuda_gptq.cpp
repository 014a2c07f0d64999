#include "compress/gptq/cuda_gptq.h"

#include "compress/backend/absent/no_gpu.h"

namespace nibble::compress::cuda {

std::optional<std::vector<float>> upper_factor(CudaContext&, const OrderedHessian&) {
  no_gpu();
}

CodedWeight gptq(CudaContext&, std::span<const float>, std::int64_t, std::int64_t,
                 const formats::Scheme&, Parameters, const InverseFactor&,
                 std::span<const std::uint8_t>) {
  no_gpu();
}

}  // namespace nibble::compress::cuda
