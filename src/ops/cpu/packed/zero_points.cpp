#include "ops/cpu/packed/zero_points.h"

#include <algorithm>
#include <cstring>

#include "core/float16.h"
#include "ops/cpu/packed/tile_codes.h"

namespace nibble::ops::cpu {
namespace {

void subtract_from_row(const TiledWeight& w, const std::int32_t* sums, const std::uint8_t* tile,
                       const QuantizedInput& input, std::int64_t token, std::int64_t rows,
                       float* y) {
  const auto* scales = reinterpret_cast<const core::Fp16*>(tile + w.scales_offset);
  for (std::int64_t r = 0; r < rows; ++r) {
    float unit = 0.0f;
    std::memcpy(&unit, tile + r * static_cast<std::int64_t>(sizeof(float)), sizeof(float));
    float total = 0.0f;
    for (std::int64_t g = 0; g < w.groups; ++g) {
      const float scale = core::to_float(scales[g * kTileRows + r]) * input.scales(token)[g];
      total += static_cast<float>(input.zeros(token)[g] * sums[g * kTileRows + r]) * scale;
    }
    y[r] -= total * unit;
  }
}

}  // namespace

std::vector<std::int32_t> weight_sums(const TiledWeight& weight, std::int64_t group,
                                      std::int64_t k) {
  std::vector<std::int32_t> sums(
      static_cast<std::size_t>(weight.tile_count * weight.groups * kTileRows));
  std::int32_t* sum = sums.data();
  for (std::int64_t index = 0; index < weight.tile_count; ++index) {
    const std::uint8_t* tile = weight.tiles + index * weight.tile_bytes;
    for (std::int64_t g = 0; g < weight.groups; ++g, sum += kTileRows) {
      const std::int64_t first = g * weight.group_inputs;
      for (std::int64_t i = 0; i < std::min(group, k - g * group); ++i) {
        for (std::int64_t r = 0; r < kTileRows; ++r) {
          sum[r] += weight_at(weight, tile, (first + i) / kQuad, r * kQuad + i % kQuad) -
                    zero_at(weight, tile, g, r);
        }
      }
    }
  }
  return sums;
}

void subtract_zero_points(const TiledWeight& weight, std::span<const std::int32_t> sums,
                          const QuantizedInput& input, std::int64_t begin, std::int64_t end,
                          float* y, std::int64_t ldy) {
  for (std::int64_t index = begin; index < end; ++index) {
    const std::uint8_t* tile = weight.tiles + index * weight.tile_bytes;
    const std::int32_t* tile_sums = sums.data() + index * weight.groups * kTileRows;
    const std::int64_t row = index * kTileRows;
    for (std::int64_t token = 0; token < input.m(); ++token) {
      subtract_from_row(weight, tile_sums, tile, input, token, std::min(kTileRows, weight.n - row),
                        y + token * ldy + row);
    }
  }
}

}  // namespace nibble::ops::cpu
