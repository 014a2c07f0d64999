#pragma once

#include <cstdint>
#include <vector>

#include "core/threads.h"
#include "ops/cpu/matrix.h"

namespace nibble::compress {

/// What a pass needs to know of a layer's inputs; each knows what those before it know.
enum class StatisticsKind {
  kNone,
  kMeanSquares,  // E[x^2] of each input
  kHessian,      // X^T X, whose diagonal holds the sums of squares: serves kMeanSquares too
};

/// Statistics of the input of one set of linear layers, collected once and shared by all passes.
class InputStatistics {
 public:
  InputStatistics(StatisticsKind kind, std::int64_t k);

  /// Adds the rows of x [m, k]. Additions are in a fixed order whatever the number of threads.
  /// Throws kFailed when x holds NaN or infinite values.
  void add(const ops::cpu::Matrix& x, core::ThreadPool& pool);

  StatisticsKind kind() const { return kind_; }
  std::int64_t rows() const { return rows_; }

  /// Sum over rows of x x^T, [k, k]: lower triangle and diagonal. Only for kHessian.
  const std::vector<float>& hessian() const { return hessian_; }

  /// E[x^2] of each input, [k]; all ones when no input was ever active (an expert without tokens).
  /// For kMeanSquares and kHessian.
  std::vector<float> mean_squares() const;

 private:
  void add_squares(const ops::cpu::Matrix& x, core::ThreadPool& pool);

  StatisticsKind kind_;
  std::int64_t k_;
  std::int64_t rows_ = 0;
  std::vector<float> hessian_;
  std::vector<double> squares_;  // [k], kMeanSquares only
};

}  // namespace nibble::compress
