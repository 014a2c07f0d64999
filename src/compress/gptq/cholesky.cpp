#include "compress/gptq/cholesky.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compress/gptq/cuda_gptq.h"
#include "core/error.h"
#include "ops/cpu/dense/blas.h"

namespace nibble::compress {
namespace {

constexpr double kLargestDamp = 1000;

// Both triangles.
std::vector<double> ordered(const OrderedHessian& hessian) {
  const std::int64_t k = hessian.k();
  std::vector<double> result(static_cast<std::size_t>(k * k));
  for (std::int64_t i = 0; i < k; ++i) {
    const std::int64_t a = hessian.order[static_cast<std::size_t>(i)];
    for (std::int64_t j = 0; j < k; ++j) {
      const std::int64_t b = hessian.order[static_cast<std::size_t>(j)];
      const bool lower = a >= b;
      result[static_cast<std::size_t>(i * k + j)] =
          hessian.lower[static_cast<std::size_t>(lower ? a * k + b : b * k + a)];
    }
    if (hessian.dead[static_cast<std::size_t>(a)]) {
      result[static_cast<std::size_t>(i * k + i)] = 1.0;
    }
    result[static_cast<std::size_t>(i * k + i)] += hessian.added;
  }
  return result;
}

// In place: a symmetric positive definite matrix becomes U with a^-1 = U^T U. False when it is not
// positive definite.
bool factor_inverse(std::vector<double>& a, std::int64_t k) {
  const auto n = static_cast<int>(k);
  int info = 0;
  ops::cpu::blas().dpotrf("U", &n, a.data(), &n, &info);
  if (info == 0) {
    ops::cpu::blas().dpotri("U", &n, a.data(), &n, &info);
  }
  if (info == 0) {
    ops::cpu::blas().dpotrf("U", &n, a.data(), &n, &info);
  }
  return info == 0 && std::isfinite(a.back());
}

}  // namespace

std::optional<std::vector<float>> upper_factor(const OrderedHessian& hessian) {
  const std::int64_t k = hessian.k();
  std::vector<double> a = ordered(hessian);
  if (!factor_inverse(a, k)) {
    return std::nullopt;
  }
  std::vector<float> upper(static_cast<std::size_t>(k * k));
  for (std::int64_t i = 0; i < k; ++i) {  // LAPACK's U is column-major
    for (std::int64_t j = i; j < k; ++j) {
      upper[static_cast<std::size_t>(i * k + j)] =
          static_cast<float>(a[static_cast<std::size_t>(j * k + i)]);
    }
  }
  return upper;
}

FactorFunction factor_on(const Backend& backend) {
  if (!backend.has_gpu()) {
    return [](const OrderedHessian& hessian) { return upper_factor(hessian); };
  }
  return [&backend](const OrderedHessian& hessian) {
    return cuda::upper_factor(backend.gpu(), hessian);
  };
}

InverseFactor inverse_factor(const std::vector<float>& hessian, std::int64_t k, double damp,
                             bool descending, const FactorFunction& upper) {
  const auto diagonal = [&](std::int64_t i) {
    return hessian[static_cast<std::size_t>(i * k + i)];
  };
  InverseFactor factor;
  factor.order.resize(static_cast<std::size_t>(k));
  factor.dead.resize(static_cast<std::size_t>(k));
  std::iota(factor.order.begin(), factor.order.end(), 0);
  if (descending) {
    std::stable_sort(factor.order.begin(), factor.order.end(),
                     [&](std::int64_t a, std::int64_t b) { return diagonal(a) > diagonal(b); });
  }
  double mean = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    factor.dead[static_cast<std::size_t>(i)] = !(diagonal(i) > 0);
    mean += diagonal(i) / static_cast<double>(k);
  }
  if (std::find(factor.dead.begin(), factor.dead.end(), false) == factor.dead.end()) {
    std::fill(factor.dead.begin(), factor.dead.end(), false);  // nothing known: all count alike
  }
  mean = mean > 0 ? mean : 1.0;
  for (factor.damp = damp; factor.damp <= kLargestDamp;
       factor.damp = factor.damp > 0 ? factor.damp * 10 : 1e-4) {
    if (auto found = upper({hessian, factor.order, factor.dead, factor.damp * mean})) {
      factor.upper = *std::move(found);
      return factor;
    }
  }
  core::fail(core::ErrorKind::kFailed,
             "the Hessian of a layer with {} inputs cannot be factored; use more calibration text",
             k);
}

std::string damp_note(const InverseFactor& factor) {
  return fmt::format("singular Hessian, damp raised to {:g}; more calibration text would help",
                     factor.damp);
}

}  // namespace nibble::compress
