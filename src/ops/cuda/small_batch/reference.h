#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/packed_weight.h"

/// What small_batch() computes, in plain loops on the host.
namespace nibble::ops::cuda {

/// Activations as integers with a scale for each 128 inputs (or as few as `step`): x(token, k) =
/// scales(token, k / step) * codes(token, k), codes in [-32512, 32512] for two digits and in [-127,
/// 127] for one.
struct IntegerActivations {
  std::int64_t m = 0;
  std::int64_t k = 0;
  int digits = 2;
  std::vector<std::int32_t> codes;  // [m][k]
  std::vector<float> scales;        // [m][blocks * 128 / step]
  std::int64_t step = 128;

  /// Codes as LaneActivations holds them: [m * digits][blocks * 128].
  std::vector<std::int8_t> in_lane_order() const { return in_order(true); }
  /// The same as TileActivations holds them (medium_batch.h).
  std::vector<std::int8_t> in_tile_order() const { return in_order(false); }
  std::vector<std::int8_t> in_order(bool lanes) const;
};

/// Row n as kernels multiply it: books with the entries of their INT8 tables, minima as
/// block_weight() has them.
std::vector<double> multiplied_row(const formats::PackedWeight& weight, std::int64_t n);

/// y[m][n] in double: the integer sums of each group of weights are exact. `magnitude` receives the
/// sum of the magnitudes of what is added, by which an error can be judged.
std::vector<double> reference(const formats::PackedWeight& weight, const IntegerActivations& x,
                              std::span<const float> bias, std::vector<double>& magnitude);

}  // namespace nibble::ops::cuda
