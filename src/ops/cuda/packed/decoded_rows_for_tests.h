#pragma once

#include <vector>

#include "formats/packed_weight.h"
#include "ops/cuda/packed/unit_rows.h"

namespace nibble::ops::cuda {

/// [rows.count()][k]: what the weights decode to, in the order of units.
inline std::vector<float> decoded(const UnitRows& rows) {
  std::vector<float> values;
  for (std::int64_t n = 0; n < rows.count(); ++n) {
    const UnitRows::Place place = rows.place(n);
    const formats::PackedWeight& weight = *rows.weights[place.weight];
    std::vector<float> row(static_cast<std::size_t>(weight.k));
    formats::decode_row(weight, place.row, row);
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}

}  // namespace nibble::ops::cuda
