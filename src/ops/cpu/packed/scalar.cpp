#include <cmath>
#include <cstring>

#include "ops/cpu/packed/quantize_row.h"
#include "ops/cpu/packed/tile_codes.h"
#include "ops/cpu/packed/variants.h"

// The layout of tile_layout.h read with plain loops: one tile and one token at a time, 16 rows side
// by side. Runs everywhere; also the description of what the other variants do.
namespace nibble::ops::cpu {
namespace {

/// sum over the group of weight * code for each row, less zero * sum of codes.
void group_sums(const TiledWeight& w, const std::uint8_t* tile, std::int64_t group,
                const std::int8_t* a, std::int32_t a_sum, std::int32_t (&sums)[kTileRows]) {
  for (std::int64_t r = 0; r < kTileRows; ++r) {
    sums[r] = -zero_at(w, tile, group, r) * a_sum;
  }
  const std::int64_t quads = w.group_inputs / kQuad;
  for (std::int64_t quad = 0; quad < quads; ++quad) {
    for (std::int64_t b = 0; b < kLineBytes; ++b) {
      sums[b / kQuad] += weight_at(w, tile, group * quads + quad, b) * a[quad * kQuad + b % kQuad];
    }
  }
}

void run_tile(const TiledWeight& w, const TiledInput& x, std::int64_t tile_index,
              std::int64_t token, float* y) {
  const std::uint8_t* tile = w.tiles + tile_index * w.tile_bytes;
  const std::int64_t stride = w.group_inputs;
  float totals[kTileRows] = {};
  for (std::int64_t g = 0; g < w.groups; ++g) {
    std::int32_t sums[kTileRows];
    group_sums(w, tile, g, x.codes + token * x.row_stride + g * stride,
               x.sums[token * x.groups + g], sums);
    const float a_scale = x.scales[token * x.groups + g];
    for (std::int64_t r = 0; r < kTileRows; ++r) {
      const float scale = scale_at(w, tile, g, r);
      const auto sum = static_cast<float>(sums[r]);
      if (w.minima_offset == 0) {
        totals[r] = std::fma(sum, scale * a_scale, totals[r]);
        continue;
      }
      const float shift =
          minimum_at(w, tile, g, r) * static_cast<float>(x.sums[token * x.groups + g]);
      totals[r] = std::fma(std::fma(sum, scale, shift), a_scale, totals[r]);
    }
  }
  const std::int64_t left = w.n - tile_index * kTileRows;
  for (std::int64_t r = 0; r < (left < kTileRows ? left : kTileRows); ++r) {
    float unit = 0.0f;
    std::memcpy(&unit, tile + r * static_cast<std::int64_t>(sizeof(float)), sizeof(float));
    y[r] = totals[r] * unit;
    if (w.bias != nullptr) {
      y[r] += w.bias[tile_index * kTileRows + r];
    }
  }
}

void run(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end, float* y,
         std::int64_t ldy) {
  for (std::int64_t tile = begin; tile < end; ++tile) {
    for (std::int64_t token = 0; token < x.m; ++token) {
      run_tile(w, x, tile, token, y + token * ldy + tile * kTileRows);
    }
  }
}

std::int64_t multiply_registers(std::int64_t rounds) {
  constexpr int kLanes = 16;
  std::int32_t sums[kLanes] = {};
  for (std::int64_t round = 0; round < rounds; ++round) {
    int weight = 7;
    int a = 5;
    asm("" : "+r"(weight), "+r"(a));  // unknown to the compiler
    for (int i = 0; i < kLanes; ++i) {
      sums[i] += (weight + i) * a;
    }
  }
  asm volatile("" : : "m"(sums));
  return rounds * kLanes;
}

}  // namespace

Variant scalar_variant() {
  return {"scalar", "nothing", [] { return true; }, run, quantize_row, multiply_registers};
}

}  // namespace nibble::ops::cpu
