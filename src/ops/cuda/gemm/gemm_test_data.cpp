#include "ops/cuda/gemm/gemm_test_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/cuda/packed/book_table.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kOrder[4] = {0, 2, 1, 3};

std::size_t at(int row, int width, int column) {
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(width) +
         static_cast<std::size_t>(column);
}

int draw(int low, int high, std::mt19937& random) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

float half_value(float value) {
  return __half2float(__float2half_rn(value));
}

// One tile of 16 rows of a unit, as unit_format.h draws it.
class TileWriter {
 public:
  TileWriter(const TestWeights& weights, int row_tile, int unit)
      : weights_(weights), first_row_(row_tile * 16), first_column_(unit * 128) {}

  void write(std::uint8_t* to) const {
    format().bits() == 4 ? write_nibbles(to) : write_bytes(to);
    write_scales(to + format().code_bytes());
  }

 private:
  const UnitFormat& format() const { return weights_.view.units.format; }
  int groups() const { return static_cast<int>(format().groups); }

  std::size_t group_at(int row, int column) const {
    const int group = weights_.plain.group == 0 ? 0 : column / weights_.plain.group;
    return at(row, weights_.plain.groups(), std::min(group, weights_.plain.groups() - 1));
  }
  int code(int r, int k) const {
    const int row = first_row_ + r;
    const int column = first_column_ + k;
    if (row < weights_.plain.rows && column < weights_.plain.columns) {
      return weights_.codes[at(row, weights_.plain.columns, column)];
    }
    // Padding columns meet inputs that are 0, padding rows are not written: any code will do.
    return (row * 7 + column * 3) % 16;
  }

  // Word 2 h + e of lane 4 g + t: k = 32 h + 8 t + 4 e + i of rows g and g + 8.
  void write_nibbles(std::uint8_t* to) const {
    const bool book = format().codes == CodeKind::kBook;
    for (int lane = 0; lane < 32; ++lane) {
      for (int word = 0; word < 8; ++word) {
        std::uint32_t bits = 0;
        for (int n = 0; n < 4; ++n) {
          const int i = kOrder[n];
          const int k = word / 2 * 32 + lane % 4 * 8 + word % 2 * 4 + i;
          const auto lower = static_cast<std::uint32_t>(code(lane / 4, k));
          const auto upper = static_cast<std::uint32_t>(code(lane / 4 + 8, k));
          bits |= book ? lower << (4 * n) | upper << (4 * n + 16)
                       : lower << (8 * n) | (upper ^ 8) << (8 * n + 4);
        }
        const std::ptrdiff_t at = word / 4 * 512 + lane * 16 + word % 4 * 4;
        std::memcpy(to + at, &bits, 4);
      }
    }
  }

  // Number h of lane 4 g + t: word r is row g + 8 (r % 2), e = r / 2.
  void write_bytes(std::uint8_t* to) const {
    for (int lane = 0; lane < 32; ++lane) {
      for (int h = 0; h < 4; ++h) {
        for (int r = 0; r < 4; ++r) {
          for (int n = 0; n < 4; ++n) {
            const int k = h * 32 + lane % 4 * 8 + r / 2 * 4 + kOrder[n];
            to[h * 512 + lane * 16 + r * 4 + n] =
                static_cast<std::uint8_t>(code(lane / 4 + r % 2 * 8, k) - 128);
          }
        }
      }
    }
  }

  void write_scales(std::uint8_t* to) const {
    const int width = 128 / groups();
    for (int group = 0; group < groups(); ++group) {
      for (int r = 0; r < 16; ++r) {
        const int row = std::min(first_row_ + r, weights_.plain.rows - 1);
        const std::size_t index = group_at(row, first_column_ + group * width);
        const int place = r % 8 * 2 + r / 8;
        const __half scale = __float2half_rn(weights_.plain.scales[index]);
        const std::ptrdiff_t at = group * 32 + place * 2;
        std::memcpy(to + at, &scale, 2);
        if (format().has_zeros()) {
          to[groups() * 32 + group * 16 + place] = static_cast<std::uint8_t>(weights_.zeros[index]);
        }
        if (format().has_shifts()) {
          const __half shift = __float2half_rn(weights_.plain.shifts[index]);
          std::memcpy(to + std::int64_t{32} * groups() + at, &shift, 2);
        }
      }
    }
  }

  const TestWeights& weights_;
  int first_row_;
  int first_column_;
};

void draw_values(TestWeights& weights, std::mt19937& random) {
  PlainWeights& plain = weights.plain;
  const UnitFormat& format = weights.view.units.format;
  const int most = format.bits() == 8 ? 255 : 15;
  const bool book = format.codes == CodeKind::kBook;
  for (int i = 0; i < plain.rows * plain.groups(); ++i) {
    plain.scales.push_back(half_value(std::ldexp(1.0f + draw(0, 1023, random) / 1024.0f, -7)));
    weights.zeros.push_back(format.has_zeros() ? draw(0, most, random) : book ? 0 : most / 2 + 1);
    if (format.has_shifts()) {
      plain.shifts.push_back(half_value(static_cast<float>(draw(-999, 999, random)) / 8192.0f));
    }
  }
  for (int row = 0; row < plain.rows; ++row) {
    for (int k = 0; k < plain.columns; ++k) {
      const int group = plain.group == 0 ? 0 : k / plain.group;
      const int code = draw(0, most, random);
      weights.codes.push_back(code);
      plain.values.push_back(
          book ? book_entry(&weights.tables[at(row, 16, 0)], static_cast<unsigned>(code))
               : code - weights.zeros[at(row, plain.groups(), group)]);
    }
  }
}

}  // namespace

TestWeights make_weights(const WeightKind& kind, int rows, int columns, std::mt19937& random) {
  TestWeights weights;
  weights.plain.rows = rows;
  weights.plain.columns = columns;
  weights.plain.group = kind.group;
  weights.view.row_scale = kind.group == 0;
  UnitsView& view = weights.view.units;
  view.n = rows;
  view.k = columns;
  view.format.codes = kind.codes;
  view.format.groups = kind.group == 0 || kind.group >= 128 ? 1 : kind.group % 32 == 0 ? 4 : 8;
  const auto grid = unit_grid(rows, columns);
  if (kind.codes == CodeKind::kBook) {
    for (std::int64_t i = 0; i < grid.row_groups * kUnitRows * 16; ++i) {
      weights.tables.push_back(static_cast<std::int8_t>(draw(-127, 127, random)));
    }
    for (std::int64_t i = 0; i < grid.row_groups * kUnitRows; ++i) {
      weights.plain.factors.push_back(static_cast<float>(draw(1, 999, random)) / 1e4f);
    }
  }
  draw_values(weights, random);
  weights.units.resize(static_cast<std::size_t>(grid.count() * view.format.bytes()));
  for (int tile = 0; tile < 4 * grid.row_groups; ++tile) {
    for (int unit = 0; unit < grid.blocks; ++unit) {
      TileWriter(weights, tile, unit)
          .write(weights.units.data() +
                 ((tile / 4 * grid.blocks + unit) * 4 + tile % 4) * view.format.tile_bytes());
    }
  }
  return weights;
}

PlainInt8Inputs make_int8_inputs(int tokens, int columns, int group, int low, int high,
                                 std::mt19937& random) {
  PlainInt8Inputs inputs;
  inputs.tokens = tokens;
  inputs.columns = columns;
  inputs.group = group;
  const int groups = group == 0 ? 1 : (columns + group - 1) / group;
  for (int i = 0; i < tokens * groups; ++i) {
    inputs.scales.push_back(0.005f + 0.01f * static_cast<float>(draw(0, 99'999, random)) / 1e5f);
  }
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(tokens) * columns; ++i) {
    inputs.codes.push_back(static_cast<std::int8_t>(draw(low, high, random)));
  }
  return inputs;
}

std::vector<float> make_half_inputs(int tokens, int columns, std::mt19937& random) {
  std::vector<float> inputs;
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(tokens) * columns; ++i) {
    inputs.push_back(half_value(normal(random)));
  }
  return inputs;
}

std::vector<std::int8_t> in_tile_order(const PlainInt8Inputs& inputs, int padded) {
  std::vector<std::int8_t> ordered(at(inputs.tokens, padded, 0), 0);
  for (int token = 0; token < inputs.tokens; ++token) {
    for (int position = 0; position < padded; ++position) {
      const int p = position % 32;
      const int k = position / 32 * 32 + p % 16 / 4 * 8 + p / 16 * 4 + kOrder[p % 4];
      if (k < inputs.columns) {
        ordered[at(token, padded, position)] = inputs.codes[at(token, inputs.columns, k)];
      }
    }
  }
  return ordered;
}

std::vector<__half> in_tile_order(const std::vector<float>& inputs, int tokens, int columns,
                                  int padded) {
  std::vector<__half> ordered(at(tokens, padded, 0), __float2half_rn(0.0f));
  for (int token = 0; token < tokens; ++token) {
    for (int k = 0; k < columns; ++k) {
      const int t = k % 32 / 8;
      const int e = k % 8 / 4;
      const int i = k % 4;
      const int position = k / 32 * 32 + 16 * e + 2 * t + i % 2 + 8 * (i / 2);
      ordered[at(token, padded, position)] = __float2half_rn(inputs[at(token, columns, k)]);
    }
  }
  return ordered;
}

std::int64_t first_difference(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      return static_cast<std::int64_t>(i);
    }
  }
  return -1;
}

}  // namespace nibble::ops::cuda
