#include "compress/any4/learned_books.h"
#include "compress/arithmetic.h"
#include "compress/awq/clip_search.h"
#include "compress/awq/scale_search.h"
#include "compress/gptq/gptq.h"

namespace nibble::compress {

std::unique_ptr<BlockRunner> CpuArithmetic::make_runner(
    const models::Decoder& decoder, const CalibrationWindows& windows, ops::cpu::CpuOps& ops,
    bool keeps_original, const std::optional<std::filesystem::path>& spill,
    const std::map<std::string, formats::Scheme>&) {
  return std::make_unique<CpuBlockRunner>(decoder, windows, ops, keeps_original, spill);
}

std::optional<std::vector<float>> CpuArithmetic::factor(const OrderedHessian& hessian) {
  return upper_factor(hessian);
}

CodedWeight CpuArithmetic::gptq(std::span<const float> weights, std::int64_t n, std::int64_t k,
                                const formats::Scheme& scheme, Parameters parameters,
                                const InverseFactor& inverse, std::span<const std::uint8_t> kept) {
  return compress::gptq(weights, n, k, scheme, std::move(parameters), inverse, pool(), kept);
}

std::vector<double> CpuArithmetic::errors_of_scales(const SetWork& set,
                                                    std::span<const std::vector<float>> scales) {
  return scale_errors(set, scales, pool());
}

void CpuArithmetic::clip(SetWork& set) {
  for (LayerWork& layer : set.layers) {
    if (!layer.is_dense()) {
      clip_groups(layer, set.statistics->hessian(), pool());
    }
  }
}

std::unique_ptr<BookSteps> CpuArithmetic::book_steps(const BookProblem& problem) {
  return make_cpu_book_steps(problem, pool());
}

std::unique_ptr<Arithmetic> make_arithmetic(const device::Place& place, core::ThreadPool& pool) {
  return place.on_gpu() ? make_cuda_arithmetic(place.index, pool)
                        : std::make_unique<CpuArithmetic>(pool);
}

}  // namespace nibble::compress
