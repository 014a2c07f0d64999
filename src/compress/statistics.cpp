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
      hessian_(kind == StatisticsKind::kHessian ? static_cast<std::size_t>(k * k) : 0),
      squares_(kind == StatisticsKind::kMeanSquares ? static_cast<std::size_t>(k) : 0) {}

std::vector<float> InputStatistics::mean_squares() const {
  std::vector<float> result(static_cast<std::size_t>(k_), 1.0f);
  bool active = false;
  const auto sum = [&](std::int64_t i) {
    return kind_ == StatisticsKind::kHessian
               ? static_cast<double>(hessian_[static_cast<std::size_t>(i * k_ + i)])
               : squares_[static_cast<std::size_t>(i)];
  };
  for (std::int64_t i = 0; i < k_; ++i) {
    active = active || sum(i) > 0;
  }
  for (std::int64_t i = 0; active && i < k_; ++i) {
    result[static_cast<std::size_t>(i)] = static_cast<float>(sum(i) / static_cast<double>(rows_));
  }
  return result;
}

void InputStatistics::add_squares(const ops::cpu::Matrix& x, core::ThreadPool& pool) {
  pool.parallel_for(k_, kPanel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      for (std::int64_t i = begin; i < end; ++i) {
        const double value = x.row(row)[i];
        squares_[static_cast<std::size_t>(i)] += value * value;
      }
    }
  });
}

void InputStatistics::add(const ops::cpu::Matrix& x, core::ThreadPool& pool) {
  const auto values = x.values();
  const bool finite =
      std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
  core::require(finite, core::ErrorKind::kFailed,
                "the model computes NaN or infinite activations on the calibration text; its "
                "weights may be damaged");
  rows_ += x.rows();
  if (kind_ == StatisticsKind::kMeanSquares) {
    add_squares(x, pool);
  }
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
