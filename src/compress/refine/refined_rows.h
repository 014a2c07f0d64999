#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/coding/coded_weight.h"

namespace nibble::compress {

/// An offset in a matrix as an index of the vector that holds it.
inline std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

/// A layer whose codes and scales are to be refined.
struct RefinedLayer {
  CodedWeight& coded;
  const RowFormats& row_formats;
  std::span<const float> target;  // [n, k]: the weights before rounding
  std::int64_t k = 0;
  const formats::Scheme& scheme;
  const std::vector<float>& hessian;        // H [k, k], both triangles
  std::span<const std::uint8_t> kept = {};  // [n, k]: 0 where a weight is pruned; empty: nowhere
};

/// Output rows [first, first + rows) of a layer during coordinate descent: their codes and groups,
/// the error E = decoded - target that follows from them, and the step of one code or scale. Rows
/// count from `first`. What an error costs is for a derived class to say.
class RefinedRows {
 public:
  RefinedRows(const RefinedLayer& layer, std::int64_t first, std::int64_t rows);

  std::int64_t rows() const { return rows_; }
  std::int64_t k() const { return layer_.k; }
  std::int64_t groups() const { return groups_; }
  GroupRange range(std::int64_t g) const { return group_range(layer_.scheme, layer_.k, g); }

  /// To elements of E [rows, k] and H [k, k], row-major.
  float* error(std::int64_t row, std::int64_t input) { return &error_[index(row * k() + input)]; }
  const float* hessian(std::int64_t i, std::int64_t j) const {
    return layer_.hessian.data() + i * k() + j;
  }

  bool keeps(std::int64_t row, std::int64_t input) const {
    return layer_.kept.empty() || layer_.kept[index((first_ + row) * k() + input)] != 0;
  }

  /// The error of all rows afresh from codes and groups.
  void decode();

  /// The values of a group's codes at scale 1.
  void decode_at_unit_scale(std::int64_t row, std::int64_t g, std::span<float> values);

  /// Moves the code of input j, which lies in group g, as near as it can get to where the loss is
  /// least, the loss changing by 2 d slope + d^2 curvature, curvature > 0, when E[row, j] changes
  /// by d. Returns by how much E[row, j] has changed: 0 where the code stays.
  float move_code(std::int64_t row, std::int64_t j, std::int64_t g, float slope, float curvature);

  /// Moves the scale of group g to the stored one nearest to where the loss is least, the loss
  /// changing by 2 d slope + d^2 curvature when the scale changes by d. It stays where that would
  /// not lower the loss or would change its sign. Returns by how much it has changed.
  double move_scale(std::int64_t row, std::int64_t g, double slope, double curvature);

  /// Codes and groups of all rows, to go back to. restore() does not touch the error.
  struct Saved {
    std::vector<std::uint8_t> codes;
    std::vector<formats::GroupParameters> groups;
  };
  Saved save();
  void restore(const Saved& saved, std::int64_t row);

 private:
  std::uint8_t* code(std::int64_t row, std::int64_t input) {
    return layer_.coded.codes.data() + (first_ + row) * k() + input;
  }
  formats::GroupParameters& group(std::int64_t row, std::int64_t g) {
    return layer_.coded.parameters.groups[index((first_ + row) * groups_ + g)];
  }
  const formats::Format& format(std::int64_t row) const {
    return layer_.row_formats.of(first_ + row);
  }
  float target(std::int64_t row, std::int64_t input) const {
    return layer_.target[index((first_ + row) * k() + input)];
  }
  void decode(std::int64_t row, std::int64_t g);

  RefinedLayer layer_;
  std::int64_t groups_;
  std::int64_t first_;
  std::int64_t rows_;
  std::vector<float> error_;  // [rows, k]
};

}  // namespace nibble::compress
