#include "ops/cpu/packed/outliers.h"

#include <algorithm>
#include <cstring>

#include "core/float16.h"
#include "ops/cpu/packed/tile_codes.h"

namespace nibble::ops::cpu {
namespace {

// y[rows of the tile] += weights of one input * value.
void add_column(const TiledWeight& w, const std::uint8_t* tile, std::int64_t group,
                std::int64_t offset, float value, std::int64_t rows, float* y) {
  const std::int64_t quad = (group * w.group_inputs + offset) / kQuad;
  const auto* scales = reinterpret_cast<const core::Fp16*>(tile + w.scales_offset);
  for (std::int64_t r = 0; r < rows; ++r) {
    float unit = 0.0f;
    std::memcpy(&unit, tile + r * static_cast<std::int64_t>(sizeof(float)), sizeof(float));
    const int code =
        weight_at(w, tile, quad, r * kQuad + offset % kQuad) - zero_at(w, tile, group, r);
    const float scale = core::to_float(scales[group * kTileRows + r]) * unit;
    y[r] += static_cast<float>(code) * scale * value;
  }
}

}  // namespace

void add_outliers(const TiledWeight& weight, const QuantizedInput& input, std::int64_t begin,
                  std::int64_t end, float* y, std::int64_t ldy) {
  for (std::int64_t index = begin; index < end; ++index) {
    const std::uint8_t* tile = weight.tiles + index * weight.tile_bytes;
    const std::int64_t row = index * kTileRows;
    const std::int64_t rows = std::min(kTileRows, weight.n - row);
    for (std::int64_t token = 0; token < input.m(); ++token) {
      for (const Outlier& outlier : input.outliers(token)) {
        add_column(weight, tile, outlier.input / input.group(), outlier.input % input.group(),
                   outlier.value, rows, y + token * ldy + row);
      }
    }
  }
}

}  // namespace nibble::ops::cpu
