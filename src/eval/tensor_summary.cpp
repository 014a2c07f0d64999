#include "eval/tensor_summary.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace nibble::eval {
namespace {

class Accumulator {
 public:
  void add(std::span<const float> values) {
    for (const float value : values) {
      if (!std::isfinite(value)) {
        ++summary_.not_finite;
        continue;
      }
      const double number = value;
      summary_.minimum = count_ == 0 ? number : std::min(summary_.minimum, number);
      summary_.maximum = count_ == 0 ? number : std::max(summary_.maximum, number);
      summary_.mean += number;
      summary_.rms += number * number;
      ++count_;
    }
  }

  TensorSummary finish(core::Shape shape) {
    summary_.shape = std::move(shape);
    const double count = static_cast<double>(std::max<std::int64_t>(1, count_));
    summary_.mean /= count;
    summary_.rms = std::sqrt(summary_.rms / count);
    return summary_;
  }

 private:
  TensorSummary summary_;
  std::int64_t count_ = 0;
};

}  // namespace

TensorSummary summarize(const core::Tensor& tensor) {
  core::require(core::is_floating(tensor.dtype()), core::ErrorKind::kUsage,
                "the tensor holds {}; statistics are for floating-point values",
                core::name_of(tensor.dtype()));
  Accumulator accumulator;
  accumulator.add(core::to_float32(tensor));
  return accumulator.finish(tensor.shape());
}

TensorSummary summarize(const formats::PackedWeight& weight) {
  Accumulator accumulator;
  std::vector<float> row(static_cast<std::size_t>(weight.k));
  for (std::int64_t i = 0; i < weight.n; ++i) {
    formats::decode_row(weight, i, row);
    accumulator.add(row);
  }
  return accumulator.finish({weight.n, weight.k});
}

}  // namespace nibble::eval
