#pragma once

#include <cstdint>
#include <vector>

namespace nibble::ops::cuda {

/// Weights as numbers: value [row][k] times scale [row][k / group], plus the shift there.
struct PlainWeights {
  int rows = 0;
  int columns = 0;             // k, any number
  int group = 128;             // columns of a scale; 0: one scale for each row
  std::vector<int> values;     // codes less their zero, or entries of a book, [rows][columns]
  std::vector<float> scales;   // values of float16, [rows][groups()]
  std::vector<float> shifts;   // likewise, or none
  std::vector<float> factors;  // of rows, by what their scales are multiplied, or none

  int groups() const { return group == 0 ? 1 : (columns + group - 1) / group; }
  int value(int row, int k) const { return values[index(row, columns, k)]; }
  float scale(int row, int k) const { return scales[group_at(row, k)]; }
  float factor(int row) const {
    return factors.empty() ? 1.0f : factors[static_cast<std::size_t>(row)];
  }
  float shift(int row, int k) const { return shifts.empty() ? 0.0f : shifts[group_at(row, k)]; }

 private:
  std::size_t group_at(int row, int k) const {
    return index(row, groups(), group == 0 ? 0 : k / group);
  }
  static std::size_t index(int row, int width, int column) {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(width) +
           static_cast<std::size_t>(column);
  }
};

/// INT8 inputs in the order of k, and their scales [tokens][groups] of `group` columns each (0: one
/// scale for each token).
struct PlainInt8Inputs {
  int tokens = 0;
  int columns = 0;
  int group = 0;
  std::vector<std::int8_t> codes;
  std::vector<float> scales;
};

/// What gemm_int8 computes: y [tokens][rows], in the same float32 operations, so that every bit is
/// equal. `tail` stands for further columns with one scale for each row; `bias` may be empty.
std::vector<float> reference_gemm_int8(const PlainWeights& weights, const PlainWeights* tail,
                                       const PlainInt8Inputs& inputs,
                                       const std::vector<float>& bias);

/// What gemm_half approximates, summed in float64, and a bound of what float32 sums in any order
/// may differ by.
struct HalfReference {
  std::vector<double> y;       // [tokens][rows]
  std::vector<double> bounds;  // [tokens][rows]
};
HalfReference reference_gemm_half(const PlainWeights& weights, const std::vector<float>& inputs,
                                  int tokens, const std::vector<float>& bias);

}  // namespace nibble::ops::cuda
