#pragma once

#include <cmath>
#include <cstdint>

#include "ops/cpu/matrix.h"

namespace nibble::compress {

/// Products of one row of two matrices of the same shape.
struct RowProducts {
  double cross = 0;   // a b^T
  double first = 0;   // a a^T
  double second = 0;  // b b^T

  /// Of the angle between the rows; 0 where one has no length.
  double cosine() const {
    return first > 0 && second > 0 ? cross / std::sqrt(first * second) : 0.0;
  }
};

inline RowProducts row_products(const ops::cpu::Matrix& a, const ops::cpu::Matrix& b,
                                std::int64_t row) {
  RowProducts products;
  for (std::int64_t i = 0; i < a.columns(); ++i) {
    const auto x = static_cast<double>(a.row(row)[i]);
    const auto y = static_cast<double>(b.row(row)[i]);
    products.cross += x * y;
    products.first += x * x;
    products.second += y * y;
  }
  return products;
}

}  // namespace nibble::compress
