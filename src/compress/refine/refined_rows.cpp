#include "compress/refine/refined_rows.h"

#include <algorithm>

namespace nibble::compress {

using formats::GroupParameters;

RefinedRows::RefinedRows(const RefinedLayer& layer, std::int64_t first, std::int64_t rows)
    : layer_(layer),
      groups_(formats::groups_per_row(layer.scheme, layer.k)),
      first_(first),
      rows_(rows),
      error_(index(rows * layer.k)) {}

void RefinedRows::decode() {
  for (std::int64_t row = 0; row < rows_; ++row) {
    for (std::int64_t g = 0; g < groups_; ++g) {
      decode(row, g);
    }
  }
}

void RefinedRows::decode(std::int64_t row, std::int64_t g) {
  const auto [begin, width, tail] = range(g);
  format(row).decode_group({code(row, begin), index(width)}, group(row, g),
                           {error(row, begin), index(width)});
  for (std::int64_t i = begin; i < begin + width; ++i) {
    *error(row, i) -= target(row, i);
  }
}

void RefinedRows::decode_at_unit_scale(std::int64_t row, std::int64_t g, std::span<float> values) {
  format(row).decode_group({code(row, range(g).begin), values.size()}, {1.0f, group(row, g).zero},
                           values);
}

float RefinedRows::move_code(std::int64_t row, std::int64_t j, std::int64_t g, float slope,
                             float curvature) {
  const GroupParameters& parameters = group(row, g);
  const float wish = target(row, j) + *error(row, j) - slope / curvature;
  const std::uint8_t next = format(row).encode(wish, parameters);
  if (next == *code(row, j)) {
    return 0;
  }
  const float moved = format(row).decode(next, parameters) - target(row, j) - *error(row, j);
  *code(row, j) = next;
  *error(row, j) += moved;
  return moved;
}

double RefinedRows::move_scale(std::int64_t row, std::int64_t g, double slope, double curvature) {
  GroupParameters& parameters = group(row, g);
  const double wish = parameters.scale - slope / curvature;
  if (!(curvature > 0) || !(wish * parameters.scale > 0)) {
    return 0;  // no weight of the group uses the scale, or it would change its sign
  }
  const float scale = format(row).stored_scale(wish);
  const double step = static_cast<double>(scale) - parameters.scale;
  if (2 * step * slope + step * step * curvature >= 0) {
    return 0;
  }
  parameters.scale = scale;
  decode(row, g);
  return step;
}

RefinedRows::Saved RefinedRows::save() {
  return {{code(0, 0), code(0, 0) + rows_ * k()}, {&group(0, 0), &group(0, 0) + rows_ * groups_}};
}

void RefinedRows::restore(const Saved& saved, std::int64_t row) {
  std::copy_n(saved.codes.begin() + row * k(), k(), code(row, 0));
  std::copy_n(saved.groups.begin() + row * groups_, groups_, &group(row, 0));
}

}  // namespace nibble::compress
