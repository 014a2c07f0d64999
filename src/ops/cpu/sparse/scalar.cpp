#include <cmath>
#include <cstring>

#include "core/float16.h"
#include "formats/row_unit.h"
#include "ops/cpu/sparse/sparse_rows.h"
#include "ops/cpu/sparse/sparse_units.h"
#include "ops/cpu/sparse/tile_units.h"

namespace nibble::ops::cpu {
namespace {

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
  /// Code i of piece `piece`, which has `width` weights.
  int code(int piece, int width, int i) const {
    const std::uint8_t* const codes = bytes_ + layout_.codes;
    const int vector = piece / kSparseRowLanes * (width / kSparseQuad) + i / kSparseQuad;
    const int byte = piece % kSparseRowLanes * kSparseQuad + i % kSparseQuad;
    return held_bits_ == 8 ? codes[vector * kSparseVector + byte]
                           : codes[vector / 2 * kSparseVector + byte] >> (vector % 2 * 4) & 15;
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
  const int width = sparse_piece_of(w.group);
  float sums[kSparseRowLanes] = {};
  for (std::int64_t at = w.first_unit[row]; at < w.first_unit[row + 1]; ++at) {
    const Unit unit(w, layout, at, row);
    for (int piece = 0; piece < kSparseUnit / width; ++piece) {
      const int entry = piece * width / w.group;
      const std::int64_t group = unit.group(entry);
      const std::int8_t* const a =
          x.codes + token * x.code_stride + group * w.group + piece * width % w.group;
      int sum = 0;
      for (int i = 0; i < width; ++i) {
        sum += (unit.code(piece, width, i) - unit.zero(entry)) * a[i];
      }
      const float scale = unit.scale(entry) * x.scales[token * x.scale_stride + group];
      float& total = sums[piece % kSparseRowLanes];
      total = std::fma(static_cast<float>(sum), scale, total);
    }
  }
  const auto half = [&](int i) { return sums[i] + sums[i + 8]; };
  const auto quarter = [&](int i) { return half(i) + half(i + 4); };
  return (quarter(0) + quarter(2)) + (quarter(1) + quarter(3));
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
