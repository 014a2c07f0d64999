#include "compress/calibration/output_curvature.h"

#include <algorithm>

#include "ops/cpu/dense/blas.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kPanel = 64;  // rows of a block that one task updates

}  // namespace

OutputCurvature::OutputCurvature(std::int64_t n) : n_(n) {
  values_.resize(offset(blocks()));
}

std::int64_t OutputCurvature::bytes_for(std::int64_t n) {
  const std::int64_t rest = n % kCurvatureBlock;
  return static_cast<std::int64_t>(sizeof(float)) *
         (n / kCurvatureBlock * kCurvatureBlock * kCurvatureBlock + rest * rest);
}

std::int64_t OutputCurvature::width(std::int64_t block) const {
  return std::min(kCurvatureBlock, n_ - first(block));
}

// All blocks before the last are full.
std::size_t OutputCurvature::offset(std::int64_t block) const {
  const std::int64_t full = std::min(block, n_ / kCurvatureBlock);
  const std::int64_t rest = block > full ? n_ % kCurvatureBlock : 0;
  return static_cast<std::size_t>(full * kCurvatureBlock * kCurvatureBlock + rest * rest);
}

std::span<const float> OutputCurvature::block(std::int64_t block) const {
  return std::span(values_).subspan(offset(block), offset(block + 1) - offset(block));
}

void OutputCurvature::add(const float* g, std::int64_t m, std::int64_t ld, core::ThreadPool& pool) {
  for (std::int64_t b = 0; b < blocks(); ++b) {
    const std::int64_t size = width(b);
    const float* from = g + first(b);
    float* to = values_.data() + offset(b);
    pool.parallel_for((size + kPanel - 1) / kPanel, 1, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t row = begin * kPanel;
      const std::int64_t rows = std::min(size, end * kPanel) - row;
      ops::cpu::blas().sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, static_cast<int>(rows),
                             static_cast<int>(size), static_cast<int>(m), 1.0f, from + row,
                             static_cast<int>(ld), from, static_cast<int>(ld), 1.0f,
                             to + row * size, static_cast<int>(size));
    });
  }
}

void OutputCurvature::divide_outputs(std::int64_t first_output, std::span<const float> divisors) {
  const auto factor = [&](std::int64_t output) {
    const std::int64_t i = output - first_output;
    const bool inside = i >= 0 && i < static_cast<std::int64_t>(divisors.size());
    return inside ? divisors[static_cast<std::size_t>(i)] : 1.0f;
  };
  // The loss feels the divided output through its multiplication further on: g' = g * divisor.
  for (std::int64_t b = 0; b < blocks(); ++b) {
    float* to = values_.data() + offset(b);
    for (std::int64_t i = 0; i < width(b); ++i) {
      for (std::int64_t j = 0; j < width(b); ++j) {
        to[i * width(b) + j] *= factor(first(b) + i) * factor(first(b) + j);
      }
    }
  }
}

}  // namespace nibble::compress
