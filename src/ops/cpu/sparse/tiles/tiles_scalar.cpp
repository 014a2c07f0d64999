#include <cmath>
#include <cstddef>
#include <cstring>

#include "core/float16.h"
#include "ops/cpu/sparse/tiles/tile_units.h"

namespace nibble::ops::cpu {
namespace {

/// Reads the parts of one unit.
class Unit {
 public:
  Unit(const SparseWeight& w, const TileUnitLayout& layout, std::int64_t unit)
      : layout_(layout), w_(w), bytes_(w.bytes + unit * layout.bytes) {}

  int code(int row, int input) const {
    const int quad = input / kSparseQuad;
    const int byte = row * kSparseQuad + input % kSparseQuad;
    return w_.held_bits == 8 ? bytes_[quad * kSparseTileLine + byte]
                             : bytes_[quad / 2 * kSparseTileLine + byte] >> (quad % 2 * 4) & 15;
  }
  float scale(int row, const float* row_units) const {
    const std::uint8_t* const scales = bytes_ + layout_.scales;
    if (w_.scale_bytes == 1) {
      return static_cast<float>(static_cast<std::int8_t>(scales[row])) * row_units[row];
    }
    core::Fp16 scale{};
    std::memcpy(&scale, scales + std::ptrdiff_t{2} * row, sizeof(scale));
    return core::to_float(scale);
  }
  int zero(int row) const {
    const std::uint8_t* const zeros = bytes_ + layout_.zeros;
    constexpr int kHalf = kSparseTile / 2;
    return w_.held_bits == 8 ? zeros[row] : zeros[row % kHalf] >> (row / kHalf * 4) & 15;
  }

 private:
  const TileUnitLayout& layout_;
  const SparseWeight& w_;
  const std::uint8_t* bytes_;
};

/// One tile of weights times one token.
void run_tile(const SparseWeight& w, const TileUnitLayout& layout, std::int64_t tile,
              const SparseInput& x, std::int64_t token, float* y) {
  float totals[kSparseTile] = {};
  for (std::int64_t at = w.first[tile]; at < w.first[tile + 1]; ++at) {
    const Unit unit(w, layout, at);
    const std::int64_t group = w.groups[at];
    const std::int8_t* const a = x.codes + token * x.code_stride + group * w.group;
    const std::int64_t place = token * x.scale_stride + group;
    for (int row = 0; row < kSparseTile; ++row) {
      int sum = -unit.zero(row) * x.sums[place];
      for (int i = 0; i < w.group; ++i) {
        sum += unit.code(row, i) * a[i];
      }
      const float scale = unit.scale(row, w.row_units + tile * kSparseTile) * x.scales[place];
      totals[row] = std::fma(static_cast<float>(sum), scale, totals[row]);
    }
  }
  std::memcpy(y, totals, sizeof(totals));
}

}  // namespace

void run_tiles_scalar(const SparseWeight& w, const SparseInput& x, std::int64_t begin,
                      std::int64_t end, float* y, std::int64_t ldy) {
  const TileUnitLayout layout = tile_unit_layout_of(w.group, w.held_bits, w.scale_bytes);
  for (std::int64_t token = 0; token < x.m; ++token) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      run_tile(w, layout, tile, x, token, y + token * ldy + tile * kSparseTile);
    }
  }
}

}  // namespace nibble::ops::cpu
