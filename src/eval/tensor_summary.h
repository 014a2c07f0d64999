#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "formats/packed_weight.h"

namespace nibble::eval {

/// Statistics of the values of a tensor; NaN and infinite values are counted and left out.
struct TensorSummary {
  core::Shape shape;
  double minimum = 0;
  double maximum = 0;
  double mean = 0;
  double rms = 0;
  std::int64_t not_finite = 0;
};

/// Throws kUsage for a tensor that does not hold floating-point values.
TensorSummary summarize(const core::Tensor& tensor);

/// Of the decoded values.
TensorSummary summarize(const formats::PackedWeight& weight);

}  // namespace nibble::eval
