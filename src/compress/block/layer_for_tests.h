#pragma once

#include <cstdint>
#include <vector>

#include "core/random_values_for_tests.h"
#include "formats/packed_weight.h"

/// Layers and losses that the tests of the methods share.
namespace nibble::compress {

/// X^T X of correlated inputs, both triangles.
inline std::vector<float> correlated_hessian(std::int64_t k, std::int64_t rows,
                                             std::uint64_t seed) {
  const std::vector<float> noise = core::normal_values(rows * k, seed);
  std::vector<float> hessian(static_cast<std::size_t>(k * k));
  std::vector<float> x(static_cast<std::size_t>(k));
  for (std::int64_t r = 0; r < rows; ++r) {
    float shared = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      shared = 0.7f * shared + noise[static_cast<std::size_t>(r * k + j)];
      x[static_cast<std::size_t>(j)] = shared * (j % 7 == 0 ? 3.0f : 1.0f);
    }
    for (std::int64_t i = 0; i < k; ++i) {
      for (std::int64_t j = 0; j < k; ++j) {
        hessian[static_cast<std::size_t>(i * k + j)] +=
            x[static_cast<std::size_t>(i)] * x[static_cast<std::size_t>(j)];
      }
    }
  }
  return hessian;
}

/// tr(E H E^T), E = w - decoded.
inline double loss(const std::vector<float>& w, const formats::PackedWeight& packed,
                   const std::vector<float>& hessian) {
  double sum = 0;
  std::vector<float> row(static_cast<std::size_t>(packed.k));
  for (std::int64_t i = 0; i < packed.n; ++i) {
    formats::decode_row(packed, i, row);
    std::vector<double> error(row.size());
    for (std::size_t j = 0; j < row.size(); ++j) {
      error[j] = w[static_cast<std::size_t>(i) * row.size() + j] - row[j];
    }
    for (std::size_t a = 0; a < row.size(); ++a) {
      for (std::size_t b = 0; b < row.size(); ++b) {
        sum += error[a] * error[b] * hessian[a * row.size() + b];
      }
    }
  }
  return sum;
}

}  // namespace nibble::compress
