#include "compress/asymmetric/corrected_target.h"

#include <algorithm>

#include "core/error.h"
#include "ops/cpu/dense/blas.h"

namespace nibble::compress {
namespace {

constexpr double kLargestDamp = 1000;

// a + added I in float64.
std::vector<double> damped(const std::vector<float>& a, std::int64_t k, double added) {
  std::vector<double> result(a.begin(), a.end());
  for (std::int64_t i = 0; i < k; ++i) {
    result[static_cast<std::size_t>(i * k + i)] += added;
  }
  return result;
}

}  // namespace

std::vector<float> correction(const std::vector<float>& cross, const std::vector<float>& hessian,
                              std::int64_t k, double damp) {
  double mean = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    mean +=
        static_cast<double>(hessian[static_cast<std::size_t>(i * k + i)]) / static_cast<double>(k);
  }
  const double unit = mean > 0 ? mean : 1.0;
  const auto n = static_cast<int>(k);
  for (; damp <= kLargestDamp; damp = damp > 0 ? damp * 10 : 1e-4) {
    // H M^T = C^T. What is lower and row-major here is upper and column-major there; the rows of C
    // are its right-hand sides and become the rows of M.
    std::vector<double> factor = damped(hessian, k, damp * unit);
    int info = 0;
    ops::cpu::blas().dpotrf("U", &n, factor.data(), &n, &info);
    if (info != 0) {
      continue;
    }
    std::vector<double> m = damped(cross, k, damp * unit);
    ops::cpu::blas().dpotrs("U", &n, &n, factor.data(), &n, m.data(), &n, &info);
    std::vector<float> result(m.size());
    std::transform(m.begin(), m.end(), result.begin(),
                   [](double value) { return static_cast<float>(value); });
    return result;
  }
  core::fail(core::ErrorKind::kFailed,
             "the Hessian of a layer with {} inputs cannot be inverted; use more calibration text",
             k);
}

void multiply_rows(std::vector<float>& w, std::int64_t k, const std::vector<float>& m) {
  const auto n = static_cast<int>(static_cast<std::int64_t>(w.size()) / k);
  std::vector<float> product(w.size());
  ops::cpu::blas().sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, static_cast<int>(k),
                         static_cast<int>(k), 1.0f, w.data(), static_cast<int>(k), m.data(),
                         static_cast<int>(k), 0.0f, product.data(), static_cast<int>(k));
  w = std::move(product);
}

}  // namespace nibble::compress
