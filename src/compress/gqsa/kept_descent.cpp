#include "compress/gqsa/kept_descent.h"

#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kRows = 16;  // of one task: they share what they read of H

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

/// Both triangles, damped.
std::vector<float> symmetric(const std::vector<float>& lower, std::int64_t k, double damp) {
  std::vector<float> hessian(lower.size());
  double mean = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    mean += static_cast<double>(lower[index(i * k + i)]) / static_cast<double>(k);
    for (std::int64_t j = 0; j <= i; ++j) {
      hessian[index(i * k + j)] = hessian[index(j * k + i)] = lower[index(i * k + j)];
    }
  }
  for (std::int64_t i = 0; i < k; ++i) {
    hessian[index(i * k + i)] += static_cast<float>(damp * mean);
  }
  return hessian;
}

}  // namespace

void descend_kept(std::span<float> weights, std::span<const float> target,
                  std::span<const std::uint8_t> kept, std::int64_t n, std::int64_t k,
                  const std::vector<float>& hessian, double damp, int sweeps,
                  core::ThreadPool& pool) {
  const std::vector<float> h = symmetric(hessian, k, damp);
  const ops::cpu::VectorKernels& kernels = ops::cpu::vector_kernels();
  pool.parallel_for(n, kRows, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> gradients(index((end - begin) * k));  // of half the error
    const auto change = [&](std::int64_t row, std::int64_t j, float by) {
      kernels.axpy_f32(by, &h[index(j * k)], &gradients[index((row - begin) * k)], k);
    };
    for (std::int64_t at = begin * k; at < end * k; ++at) {
      change(at / k, at % k, weights[index(at)] - target[index(at)]);
    }
    for (std::int64_t step = 0; step < sweeps * k; ++step) {
      const std::int64_t j = step % k;
      const float curvature = h[index(j * k + j)];
      for (std::int64_t row = begin; row < end; ++row) {
        const std::size_t at = index(row * k + j);
        if (kept[at] != 0 && curvature > 0) {
          const float by = -gradients[index((row - begin) * k + j)] / curvature;
          weights[at] += by;
          change(row, j, by);
        }
      }
    }
  });
}

}  // namespace nibble::compress
