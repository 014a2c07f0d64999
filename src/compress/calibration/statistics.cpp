#include "compress/calibration/statistics.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "ops/cpu/dense/blas.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kPanel = 128;  // rows of the Hessian that one task updates

std::size_t size_if(bool wanted, std::int64_t size) {
  return wanted ? static_cast<std::size_t>(size) : 0;
}

// Row i of x times weights[i].
std::vector<float> weighted(const ops::cpu::Matrix& x, std::span<const float> weights) {
  core::require(static_cast<std::int64_t>(weights.size()) == x.rows(), core::ErrorKind::kFailed,
                "{} weights for {} rows", weights.size(), x.rows());
  std::vector<float> result(x.values().size());
  float* to = result.data();
  for (std::int64_t i = 0; i < x.rows(); ++i, to += x.columns()) {
    const float weight = weights[static_cast<std::size_t>(i)];
    std::transform(x.row(i), x.row(i) + x.columns(), to,
                   [weight](float value) { return weight * value; });
  }
  return result;
}

}  // namespace

InputStatistics::InputStatistics(StatisticsKind kind, std::int64_t k)
    : kind_(kind),
      k_(k),
      largest_(size_if(kind >= StatisticsKind::kChannels, k)),
      magnitude_(size_if(kind >= StatisticsKind::kChannels, k)),
      squares_(size_if(kind >= StatisticsKind::kChannels, k)),
      hessian_(size_if(kind >= StatisticsKind::kHessian, k * k)),
      cross_(size_if(kind >= StatisticsKind::kCross, k * k)) {}

InputStatistics::InputStatistics(StatisticsKind kind, std::int64_t k, Sums sums)
    : kind_(kind),
      k_(k),
      rows_(sums.rows),
      largest_(std::move(sums.largest)),
      magnitude_(std::move(sums.magnitude)),
      squares_(std::move(sums.squares)),
      hessian_(std::move(sums.hessian)),
      cross_(std::move(sums.cross)) {}

std::vector<float> InputStatistics::mean_squares() const {
  std::vector<float> result(static_cast<std::size_t>(k_), 1.0f);
  const bool active =
      std::any_of(squares_.begin(), squares_.end(), [](double sum) { return sum > 0; });
  for (std::size_t i = 0; active && i < result.size(); ++i) {
    result[i] = static_cast<float>(squares_[i] / static_cast<double>(rows_));
  }
  return result;
}

void InputStatistics::add(const ops::cpu::Matrix& x, core::ThreadPool& pool,
                          std::span<const float> weights) {
  const auto values = x.values();
  const bool finite =
      std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
  core::require(finite, core::ErrorKind::kFailed, "{}", kNotFinite);
  rows_ += x.rows();
  if (kind_ >= StatisticsKind::kChannels) {
    add_channels(x, pool);
  }
  if (magnitudes_) {
    magnitudes_->add(values);
  }
  if (kind_ >= StatisticsKind::kHessian) {
    const auto scaled = weights.empty() ? std::vector<float>() : weighted(x, weights);
    add_products(weights.empty() ? x.data() : scaled.data(), x.data(), x.rows(), true, hessian_,
                 pool);
  }
}

void InputStatistics::add_cross(const ops::cpu::Matrix& original, const ops::cpu::Matrix& x,
                                core::ThreadPool& pool, std::span<const float> weights) {
  core::require(original.rows() == x.rows() && original.columns() == x.columns(),
                core::ErrorKind::kFailed, "inputs [{}, {}] beside original inputs [{}, {}]",
                x.rows(), x.columns(), original.rows(), original.columns());
  const auto scaled = weights.empty() ? std::vector<float>() : weighted(original, weights);
  add_products(weights.empty() ? original.data() : scaled.data(), x.data(), x.rows(), false, cross_,
               pool);
}

void InputStatistics::add_channels(const ops::cpu::Matrix& x, core::ThreadPool& pool) {
  pool.parallel_for(k_, kPanel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      const float* values = x.row(row);
      for (auto j = static_cast<std::size_t>(begin); j < static_cast<std::size_t>(end); ++j) {
        const double value = std::fabs(static_cast<double>(values[j]));
        largest_[j] = std::max(largest_[j], static_cast<float>(value));
        magnitude_[j] += value;
        squares_[j] += value * value;
      }
    }
  });
}

void InputStatistics::add_products(const float* a, const float* b, std::int64_t m, bool lower,
                                   std::vector<float>& sum, core::ThreadPool& pool) const {
  const auto ld = static_cast<int>(k_);
  pool.parallel_for((k_ + kPanel - 1) / kPanel, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t panel = first; panel < last; ++panel) {
      const std::int64_t begin = panel * kPanel;
      const std::int64_t end = std::min(k_, begin + kPanel);
      ops::cpu::blas().sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, static_cast<int>(end - begin),
                             static_cast<int>(lower ? end : k_), static_cast<int>(m), 1.0f,
                             a + begin, ld, b, ld, 1.0f, sum.data() + begin * k_, ld);
    }
  });
}

const Magnitudes& InputStatistics::magnitudes() const {
  core::require(magnitudes_.has_value(), core::ErrorKind::kFailed,
                "magnitudes of inputs are not known as they are now");
  return *magnitudes_;
}

void InputStatistics::divide_inputs(std::span<const float> divisors) {
  magnitudes_.reset();
  for (std::size_t i = 0; i < largest_.size(); ++i) {
    largest_[i] /= divisors[i];
    const auto divisor = static_cast<double>(divisors[i]);
    magnitude_[i] /= divisor;
    squares_[i] /= divisor * divisor;
  }
  if (kind_ < StatisticsKind::kHessian) {
    return;
  }
  for (std::int64_t i = 0; i < k_; ++i) {
    float* row = hessian_.data() + i * k_;
    for (std::int64_t j = 0; j <= i; ++j) {
      row[j] /= divisors[static_cast<std::size_t>(i)] * divisors[static_cast<std::size_t>(j)];
    }
  }
  for (std::size_t at = 0; at < cross_.size(); ++at) {
    const auto k = static_cast<std::size_t>(k_);
    cross_[at] /= divisors[at / k] * divisors[at % k];
  }
}

// T^T H T: the rows of H, then its columns. Both triangles of the result are right.
void InputStatistics::transform_hessian(const ops::InputTransform& transform,
                                        core::ThreadPool& pool) {
  constexpr std::int64_t kRows = 8;
  const auto at = [this](std::int64_t i, std::int64_t j) -> float& {
    return hessian_[static_cast<std::size_t>(i * k_ + j)];
  };
  const auto transform_rows = [&] {
    pool.parallel_for(k_, kRows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        transform.apply({&at(i, 0), static_cast<std::size_t>(k_)});
      }
    });
  };
  for (std::int64_t i = 0; i < k_; ++i) {
    for (std::int64_t j = 0; j < i; ++j) {
      at(j, i) = at(i, j);
    }
  }
  transform_rows();
  for (std::int64_t i = 0; i < k_; ++i) {
    for (std::int64_t j = 0; j < i; ++j) {
      std::swap(at(i, j), at(j, i));
    }
  }
  transform_rows();
}

void InputStatistics::transform_inputs(const ops::InputTransform& transform,
                                       core::ThreadPool& pool) {
  if (kind_ == StatisticsKind::kNone || transform.is_identity()) {
    return;
  }
  magnitudes_.reset();
  core::require(kind_ <= StatisticsKind::kHessian, core::ErrorKind::kFailed,
                "products with the original's inputs cannot be brought behind a transform");
  if (kind_ == StatisticsKind::kHessian) {
    transform_hessian(transform, pool);
  }
  if (!transform.mixes()) {
    transform.reorder(std::span(largest_));
    transform.reorder(std::span(magnitude_));
    transform.reorder(std::span(squares_));
    return;
  }
  core::require(kind_ == StatisticsKind::kHessian, core::ErrorKind::kFailed,
                "inputs that are mixed need the Hessian, not statistics of channels");
  for (std::size_t i = 0; i < squares_.size(); ++i) {
    squares_[i] = static_cast<double>(hessian_[i * squares_.size() + i]);
  }
  largest_.clear();
  magnitude_.clear();
}

std::vector<float> InputStatistics::mean_magnitude() const {
  std::vector<float> mean(magnitude_.size());
  const auto rows = static_cast<double>(std::max<std::int64_t>(1, rows_));
  std::transform(magnitude_.begin(), magnitude_.end(), mean.begin(),
                 [&](double sum) { return static_cast<float>(sum / rows); });
  return mean;
}

}  // namespace nibble::compress
