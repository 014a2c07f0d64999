#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/threads.h"
#include "ops/cpu/dense/float_digits.h"
#include "ops/cpu/matrix.h"
#include "ops/cpu/packed/quantized_input.h"

namespace nibble::ops::cpu {

/// Memory and threads that kernels of linear layers work with; it is kept from call to call.
struct LinearWorkspace {
  core::ThreadPool& pool;
  std::shared_ptr<BufferPool> buffers;
  std::vector<std::shared_ptr<QuantizedInput>> spare;
  std::vector<std::shared_ptr<FloatDigits>> spare_digits = {};
};

/// An activation that linear layers read, with the forms that kernels asked for so far.
class LinearInput {
 public:
  explicit LinearInput(Matrix values) : values_(std::move(values)) {}
  const Matrix& values() const { return values_; }

  /// As integers.
  const QuantizedInput& quantized(const InputNeeds& needs, LinearWorkspace& workspace);
  /// In float, in the order of a weight and turned for it.
  const Matrix& transformed(const formats::PackedWeight& weight, LinearWorkspace& workspace);
  /// As digits for weights of one type, of `x`: values() or what transformed() gave. At most
  /// FloatDigits::kMostTokens rows.
  const FloatDigits& digits(const FloatTiles& tiles, const Matrix& x, bool is_f16,
                            LinearWorkspace& workspace);

 private:
  Matrix values_;
  std::vector<std::shared_ptr<QuantizedInput>> quantized_;
  std::vector<std::pair<InputTransform, Matrix>> transformed_;
  std::vector<std::shared_ptr<FloatDigits>> digits_;
};

}  // namespace nibble::ops::cpu
