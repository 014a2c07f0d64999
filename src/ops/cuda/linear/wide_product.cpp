#include "ops/cuda/linear/wide_product.h"

#include <utility>

namespace nibble::ops::cuda {
namespace {

constexpr std::int64_t kWideBytes = 32 << 20;
constexpr std::int64_t kRowStep = 128;

}  // namespace

std::int64_t rows_at_once(std::int64_t n, std::int64_t k) {
  constexpr std::int64_t kHalf = sizeof(core::Fp16);
  const std::int64_t fit = kWideBytes / (k * kHalf) / kRowStep * kRowStep;
  const std::int64_t all = (n + kRowStep - 1) / kRowStep * kRowStep;
  return std::clamp(fit, kRowStep, all);
}

WideRows::WideRows(std::shared_ptr<WideScratch> scratch, std::int64_t n, std::int64_t k,
                   std::int64_t more)
    : scratch_(std::move(scratch)), count_(rows_at_once(n, k) * k) {
  if (scratch_ != nullptr) {
    scratch_->reserve((count_ + more) * static_cast<std::int64_t>(sizeof(core::Fp16)));
  }
}

void multiply_wide_rows(const WideProduct& layer, std::int64_t first, std::int64_t rows,
                        const core::Fp16* x, std::int64_t m, const GemmOutput& output,
                        cudaStream_t stream) {
  device::cuda::LtProduct product;
  product.type = core::DType::kF16;
  product.n = rows;
  product.k = layer.k;
  product.m = m;
  product.w = layer.values;
  product.x = x;
  product.ldx = padded_columns(layer.k);
  product.y = output.y + first;
  product.type_of_y = core::DType::kF32;
  product.ldy = output.stride;
  product.bias = output.bias == nullptr ? nullptr : output.bias + first;
  product.adds = output.adds;
  layer.products->multiply(product, stream);
}

}  // namespace nibble::ops::cuda
