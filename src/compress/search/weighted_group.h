#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/vector_level.h"
#include "formats/format.h"
#include "formats/int/step_loops.h"
#include "formats/lut4/book_order.h"

namespace nibble::compress {

/// The weights of a group and how much the squared error of each counts, for sums over both. All
/// sums are of float64 terms: element i goes to partial sum i % 8, and the eight are added in a
/// fixed order, so every instruction set gives the same bits.
///
/// Values and codes are given as spans of padded() elements; those behind the group's own may be
/// any finite numbers.
class WeightedGroup {
 public:
  explicit WeightedGroup(core::VectorLevel level = core::vector_level()) : level_(level) {}

  /// As many elements of both.
  void assign(std::span<const float> weights, std::span<const float> importance);

  /// The number of elements, rounded up to whole vectors.
  std::size_t padded() const { return weights_.size(); }

  /// sum h (w - value)^2
  double squared_error(std::span<const float> values) const;

  /// What is fitted to the codes afterwards: only what that needs is added up.
  enum class Fit { kScale, kLine };

  /// Sums over what rounding gives. A level is what is multiplied with the scale: a code less the
  /// zero point, or a value of a book.
  struct Rounded {
    double squared_error = 0;  // sum h (w - decoded)^2
    double cross = 0;          // sum h w level
    double sum = 0;            // kScale: sum h level^2; kLine: sum h code
  };
  /// Rounds to nearest: `codes` become the numbers that Format::encode_group() gives for equal
  /// steps.
  Rounded round(const formats::GroupParameters& parameters, formats::StepCodes step_codes, Fit fit,
                std::span<float> codes) const;
  /// The same to the values of a book, for kScale: `codes` become those values.
  Rounded round(const formats::GroupParameters& parameters, const formats::BookOrder& order,
                std::span<float> codes) const;

  /// The line w = slope * code + offset with the least weighted squares goes through the means of
  /// both, with a slope of covariance / variance.
  struct Line {
    double code = 0;        // mean
    double weight = 0;      // mean
    double variance = 0;    // sum h (code - mean)^2
    double covariance = 0;  // sum h (code - mean) (w - mean)
  };
  /// `rounded` to these codes, for kLine.
  Line line(std::span<const float> codes, const Rounded& rounded) const;

  /// w = scale * (value - zero) + minimum has the least weighted squares with cross / square.
  struct Scale {
    double cross = 0;   // sum h (w - minimum) (value - zero)
    double square = 0;  // sum h (value - zero)^2
  };
  Scale scale(std::span<const float> values, int zero, float minimum) const;

 private:
  // Each [padded], 0 beyond the group.
  std::vector<float> floats_;       // weights
  std::vector<double> weights_;     // the same
  std::vector<double> importance_;  // h
  std::vector<double> products_;    // h w

  core::VectorLevel level_;
  double total_ = 0;  // of importance
  double mean_ = 0;   // of weights
};

}  // namespace nibble::compress
