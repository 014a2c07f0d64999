#include <cmath>
#include <cstring>

#include "core/float16.h"
#include "formats/row_unit.h"
#include "ops/cpu/sparse/sparse_rows.h"
#include "ops/cpu/sparse/sparse_units.h"
#include "ops/cpu/sparse/tile_units.h"

namespace nibble::ops::cpu {
namespace {

constexpr int kQuads = kSparseVector / kSparseQuad;  // of a vector

/// Reads the parts of one unit.
class Unit {
 public:
  /// Of row `row`.
  Unit(const SparseWeight& w, const SparseUnitLayout& layout, std::int64_t unit, std::int64_t row)
      : layout_(layout),
        held_bits_(w.held_bits),
        row_unit_(w.scale_bytes == 1 ? w.row_units[row] : 0.0f),
        bytes_(w.units + unit * layout.bytes) {}

  std::int64_t group(int entry) const {
    return bytes_[layout_.base] + 256 * bytes_[layout_.base + 1] + bytes_[entry];
  }
  float scale(int entry) const {
    if (row_unit_ != 0.0f) {
      return formats::scale_of_units(bytes_[layout_.scales + entry], row_unit_);
    }
    core::Fp16 scale{};
    std::memcpy(&scale, bytes_ + layout_.scales + 2 * entry, sizeof(scale));
    return core::to_float(scale);
  }
  int zero(int entry) const {
    const std::uint8_t* const zeros = bytes_ + layout_.zeros;
    if (held_bits_ == 8) {
      return zeros[entry];
    }
    const int half = layout_.entries / 2;
    return zeros[entry % half] >> (entry / half * 4) & 15;
  }
  int code(int weight) const {
    const std::uint8_t* const codes = bytes_ + layout_.codes;
    const int vector = weight / kSparseVector;
    return held_bits_ == 8
               ? codes[weight]
               : codes[vector / 2 * kSparseVector + weight % kSparseVector] >> (vector % 2 * 4) &
                     15;
  }

 private:
  const SparseUnitLayout& layout_;
  int held_bits_;
  float row_unit_;  // 0: scales are float16
  const std::uint8_t* bytes_;
};

/// One row of weights times one token.
float dot(const SparseWeight& w, const SparseUnitLayout& layout, std::int64_t row,
          const SparseInput& x, std::int64_t token) {
  float sums[2][kQuads] = {};
  for (std::int64_t at = w.first_unit[row]; at < w.first_unit[row + 1]; ++at) {
    const Unit unit(w, layout, at, row);
    for (int weight = 0; weight < kSparseUnit; weight += kSparseQuad) {
      const int entry = weight / w.group;
      const std::int64_t group = unit.group(entry);
      const std::int8_t* const a =
          x.codes + token * x.code_stride + group * w.group + weight % w.group;
      int sum = 0;
      for (int j = 0; j < kSparseQuad; ++j) {
        sum += (unit.code(weight + j) - unit.zero(entry)) * a[j];
      }
      const float scale = unit.scale(entry) * x.scales[token * x.scale_stride + group];
      float& total = sums[weight / kSparseVector % 2][weight % kSparseVector / kSparseQuad];
      total = std::fma(static_cast<float>(sum), scale, total);
    }
  }
  const auto both = [&](int i) { return sums[0][i] + sums[1][i]; };
  float rest[kQuads / 4];
  for (int i = 0; i < kQuads / 4; ++i) {
    rest[i] = (both(i) + both(i + kQuads / 2)) +
              (both(i + kQuads / 4) + both(i + kQuads / 4 + kQuads / 2));
  }
  return (rest[0] + rest[2]) + (rest[1] + rest[3]);
}

void run(const SparseWeight& w, const SparseInput& x, std::int64_t begin, std::int64_t end,
         float* y, std::int64_t ldy) {
  if (w.rows != 1) {
    return run_tiles_scalar(w, x, begin, end, y, ldy);
  }
  const SparseUnitLayout layout = sparse_unit_layout(w.group, w.held_bits, w.scale_bytes);
  for (std::int64_t token = 0; token < x.m; ++token) {
    for (std::int64_t row = begin; row < end; ++row) {
      y[token * ldy + row] = dot(w, layout, row, x, token);
    }
  }
}

}  // namespace

SparseKernel scalar_sparse_kernel() {
  return {"scalar", "nothing", [] { return true; }, [](int, int) { return true; }, run};
}

}  // namespace nibble::ops::cpu
