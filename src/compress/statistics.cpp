#include "compress/statistics.h"

#include <algorithm>
#include <cmath>

#include <cblas.h>

#include "core/error.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kPanel = 128;  // rows of the Hessian that one task updates

}  // namespace

InputStatistics::InputStatistics(StatisticsKind kind, std::int64_t k)
    : kind_(kind),
      k_(k),
      hessian_(kind == StatisticsKind::kHessian ? static_cast<std::size_t>(k * k) : 0) {}

void InputStatistics::add(const ops::cpu::Matrix& x, core::ThreadPool& pool) {
  const auto values = x.values();
  const bool finite =
      std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
  core::require(finite, core::ErrorKind::kFailed,
                "the model computes NaN or infinite activations on the calibration text; its "
                "weights may be damaged");
  rows_ += x.rows();
  if (kind_ != StatisticsKind::kHessian) {
    return;
  }
  const auto m = static_cast<int>(x.rows());
  const auto ld = static_cast<int>(k_);
  pool.parallel_for((k_ + kPanel - 1) / kPanel, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t panel = first; panel < last; ++panel) {
      const std::int64_t begin = panel * kPanel;
      const std::int64_t end = std::min(k_, begin + kPanel);
      cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, static_cast<int>(end - begin),
                  static_cast<int>(end), m, 1.0f, x.data() + begin, ld, x.data(), ld, 1.0f,
                  hessian_.data() + begin * k_, ld);
    }
  });
}

}  // namespace nibble::compress
