#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compress/calibration/magnitudes.h"
#include "core/threads.h"
#include "ops/cpu/matrix.h"
#include "ops/input_transform.h"

namespace nibble::compress {

/// What a pass needs to know of a layer's inputs; each kind includes those before it.
enum class StatisticsKind {
  kNone,
  kChannels,  // of each input channel: largest and mean magnitude, mean square
  kHessian,   // X^T X
  kCross,     // X0^T X too, X0 being what the input is in the original model
};

/// Statistics of the input of one set of linear layers, collected once and shared by all passes.
class InputStatistics {
 public:
  InputStatistics(StatisticsKind kind, std::int64_t k);

  /// Sums over rows as they were added elsewhere; what `kind` does not have is empty.
  struct Sums {
    std::int64_t rows = 0;
    std::vector<float> largest;     // of |x|, [k]
    std::vector<double> magnitude;  // of |x|, [k]
    std::vector<double> squares;    // of x^2, [k]
    std::vector<float> hessian;     // [k, k], lower triangle and diagonal
    std::vector<float> cross;       // [k, k]
  };
  InputStatistics(StatisticsKind kind, std::int64_t k, Sums sums);

  /// Also counts magnitudes from here on: before the first row.
  void count_magnitudes() { magnitudes_.emplace(); }

  /// Why activations that are not finite end a job.
  static constexpr const char* kNotFinite =
      "the model computes NaN or infinite activations on the calibration text; its weights may be "
      "damaged";

  /// Adds the rows of x [m, k]; the Hessian counts row i `weights[i]` times (empty: once).
  /// Additions are in a fixed order whatever the number of threads. Throws kFailed when x holds NaN
  /// or infinite values.
  void add(const ops::cpu::Matrix& x, core::ThreadPool& pool, std::span<const float> weights = {});

  /// kCross: adds the products of the same rows in the original model with those of x.
  void add_cross(const ops::cpu::Matrix& original, const ops::cpu::Matrix& x,
                 core::ThreadPool& pool, std::span<const float> weights = {});

  /// What the statistics would be if every input channel were divided by divisors[k].
  void divide_inputs(std::span<const float> divisors);

  /// What the statistics would be behind a transform of the inputs. After one that mixes inputs
  /// largest() and mean_magnitude() are empty, and the Hessian must be known (or nothing at all).
  void transform_inputs(const ops::InputTransform& transform, core::ThreadPool& pool);

  StatisticsKind kind() const { return kind_; }
  std::int64_t rows() const { return rows_; }

  /// Largest |x| of each channel, [k].
  const std::vector<float>& largest() const { return largest_; }

  /// Magnitudes of all inputs together. Throws kFailed where they were not counted, and where
  /// inputs were divided or transformed since.
  const Magnitudes& magnitudes() const;

  /// Mean |x| of each channel, [k]; zeros when there were no rows.
  std::vector<float> mean_magnitude() const;

  /// Sum over rows of x x^T, [k, k]: lower triangle and diagonal. Only for kHessian.
  const std::vector<float>& hessian() const { return hessian_; }

  /// Sum over rows of x0 x^T, [k, k]: row i belongs to the original's input i. Only for kCross.
  const std::vector<float>& cross() const { return cross_; }

  /// E[x^2] of each input, [k]; all ones when no input was ever active (an expert without tokens).
  std::vector<float> mean_squares() const;

 private:
  void add_channels(const ops::cpu::Matrix& x, core::ThreadPool& pool);
  // sum += a^T b, all of it or the lower triangle by panels; a [m, k] may be b.
  void add_products(const float* a, const float* b, std::int64_t m, bool lower,
                    std::vector<float>& sum, core::ThreadPool& pool) const;
  void transform_hessian(const ops::InputTransform& transform, core::ThreadPool& pool);

  StatisticsKind kind_;
  std::int64_t k_;
  std::int64_t rows_ = 0;
  std::vector<float> largest_;
  std::vector<double> magnitude_;  // sums of |x|
  std::vector<double> squares_;    // sums of x^2
  std::vector<float> hessian_;
  std::vector<float> cross_;
  std::optional<Magnitudes> magnitudes_;
};

}  // namespace nibble::compress
