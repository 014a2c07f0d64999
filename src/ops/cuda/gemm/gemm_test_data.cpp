#include "ops/cuda/gemm/gemm_test_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>

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

// The code of row r and column k of a unit, as it is stored: unsigned 4 bits, or a byte.
class TileWriter {
 public:
  TileWriter(const TestWeights& weights, int row_tile, int unit)
      : weights_(weights), first_row_(row_tile * 16), first_column_(unit * 128) {}

  void write(std::uint8_t* to) const {
    weights_.view.bits == 4 ? write_nibbles(to) : write_bytes(to);
    write_scales(to + 256 * weights_.view.bits);
  }

 private:
  int groups() const { return weights_.view.groups_in_unit; }
  int row_groups() const { return weights_.plain.groups(); }

  int group_at(int row, int column) const {
    const int group = weights_.plain.group == 0 ? 0 : column / weights_.plain.group;
    return std::min(group, row_groups() - 1) + row * row_groups();
  }
  bool inside(int row, int column) const {
    return row < weights_.plain.rows && column < weights_.plain.columns;
  }
  int code(int r, int k) const {
    const int row = first_row_ + r;
    const int column = first_column_ + k;
    if (!inside(row, column)) {
      return draw_padding(row, column);
    }
    const int zero = weights_.zeros[static_cast<std::size_t>(group_at(row, column))];
    return weights_.plain.value(row, column) + zero;
  }
  // Padding columns meet inputs that are 0, padding rows are not written: any code will do.
  static int draw_padding(int row, int column) { return (row * 7 + column * 3) % 16; }

  // Word 2 h + e of lane 4 g + t: k = 32 h + 8 t + 4 e + i of rows g and g + 8.
  void write_nibbles(std::uint8_t* to) const {
    for (int lane = 0; lane < 32; ++lane) {
      for (int word = 0; word < 8; ++word) {
        std::uint32_t bits = 0;
        for (int i = 0; i < 4; ++i) {
          const int k = word / 2 * 32 + lane % 4 * 8 + word % 2 * 4 + i;
          const int nibble = i / 2 * 2 + i % 2 * 4;
          bits |= static_cast<std::uint32_t>(code(lane / 4, k)) << (4 * nibble);
          bits |= static_cast<std::uint32_t>(code(lane / 4 + 8, k)) << (4 * nibble + 4);
        }
        std::memcpy(to + word / 4 * 512 + lane * 16 + word % 4 * 4, &bits, 4);
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
                static_cast<std::uint8_t>(code(lane / 4 + r % 2 * 8, k));
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
        const auto index = static_cast<std::size_t>(group_at(row, first_column_ + group * width));
        const int place = r % 8 * 2 + r / 8;
        const __half scale = __float2half_rn(weights_.plain.scales[index]);
        std::memcpy(to + group * 32 + place * 2, &scale, 2);
        if (weights_.view.asymmetric) {
          to[groups() * 32 + group * 16 + place] =
              static_cast<std::uint8_t>(weights_.zeros[index]);
        }
      }
    }
  }

  const TestWeights& weights_;
  int first_row_;
  int first_column_;
};

void draw_values(TestWeights& weights, const WeightKind& kind, std::mt19937& random) {
  PlainWeights& plain = weights.plain;
  const int groups = plain.groups();
  for (int i = 0; i < plain.rows * groups; ++i) {
    plain.scales.push_back(half_value(std::ldexp(1.0f + draw(0, 1023, random) / 1024.0f, -7)));
    weights.zeros.push_back(kind.bits == 8 ? 0 : kind.asymmetric ? draw(0, 15, random) : 8);
  }
  for (int row = 0; row < plain.rows; ++row) {
    for (int k = 0; k < plain.columns; ++k) {
      const int group = plain.group == 0 ? 0 : k / plain.group;
      const int code = kind.bits == 8 ? draw(-128, 127, random) : draw(0, 15, random);
      plain.values.push_back(code - weights.zeros[at(row, groups, group)]);
    }
  }
}

}  // namespace

TestWeights make_weights(const WeightKind& kind, int rows, int columns, std::mt19937& random) {
  TestWeights weights;
  weights.plain.rows = rows;
  weights.plain.columns = columns;
  weights.plain.group = kind.group;
  draw_values(weights, kind, random);
  GemmWeights& view = weights.view;
  view.rows = rows;
  view.unit_count = padded_columns(columns) / 128;
  view.bits = kind.bits;
  view.groups_in_unit = kind.group == 0 || kind.group >= 128 ? 1 : 128 / kind.group;
  view.asymmetric = kind.asymmetric;
  view.row_scale = kind.group == 0;
  const int row_groups = (rows + kGemmUnitRows - 1) / kGemmUnitRows;
  const int bytes = tile_bytes(view);
  weights.units.resize(static_cast<std::size_t>(row_groups * view.unit_count * 4 * bytes));
  for (int tile = 0; tile < 4 * row_groups; ++tile) {
    for (int unit = 0; unit < view.unit_count; ++unit) {
      TileWriter(weights, tile, unit)
          .write(weights.units.data() +
                 ((tile / 4 * view.unit_count + unit) * 4 + tile % 4) * bytes);
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

}  // namespace nibble::ops::cuda
