#pragma once

#include <optional>
#include <span>
#include <vector>

#include "compress/backend/backend.h"
#include "compress/coding/coded_weight.h"
#include "compress/gptq/cholesky.h"

/// GPTQ on a GPU.
namespace nibble::compress::cuda {

/// upper_factor().
std::optional<std::vector<float>> upper_factor(CudaContext& context, const OrderedHessian& hessian);

/// gptq(), for schemes that has_gpu_coder_of_head() accepts.
CodedWeight gptq(CudaContext& context, std::span<const float> weights, std::int64_t n,
                 std::int64_t k, const formats::Scheme& scheme, Parameters parameters,
                 const InverseFactor& factor, std::span<const std::uint8_t> kept);

}  // namespace nibble::compress::cuda
