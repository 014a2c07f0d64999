#pragma once

#include <cstdint>
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

/// A form that no input has, or a new one.
std::shared_ptr<QuantizedInput> unused_codes(LinearWorkspace& workspace);

/// An activation that linear layers read, with the forms that kernels asked for so far: of values
/// in float, or integers alone.
class LinearInput {
 public:
  explicit LinearInput(Matrix values);
  explicit LinearInput(std::shared_ptr<QuantizedInput> codes);

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  /// Throws kFailed where there are integers alone.
  const Matrix& values() const;

  /// As integers. Throws as values(), where there are others alone.
  const QuantizedInput& quantized(const InputNeeds& needs, LinearWorkspace& workspace);
  /// In float, in the order of a weight and turned for it.
  const Matrix& transformed(const formats::PackedWeight& weight, LinearWorkspace& workspace);
  /// As digits for weights of one type, of `x`: values() or what transformed() gave. At most
  /// FloatDigits::kMostTokens rows.
  const FloatDigits& digits(const FloatTiles& tiles, const Matrix& x, bool is_f16,
                            LinearWorkspace& workspace);

 private:
  Matrix values_;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  std::vector<std::shared_ptr<QuantizedInput>> quantized_;
  std::vector<std::pair<InputTransform, Matrix>> transformed_;
  std::vector<std::shared_ptr<FloatDigits>> digits_;
};

}  // namespace nibble::ops::cpu
