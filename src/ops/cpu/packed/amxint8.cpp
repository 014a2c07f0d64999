#include <algorithm>

#include "ops/cpu/cpu_features.h"
#include "ops/cpu/packed/amx_kernel.h"
#include "ops/cpu/packed/lanes512.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/variants.h"
#include "ops/cpu/tiles/hardware_tiles.h"
#include "ops/cpu/tiles/tile_permission.h"

// The loops of amx_kernel.h on the tile registers of the CPU.
namespace nibble::ops::cpu {
namespace {

/// Tokens from which tile registers are faster than AVX-512, as measured
/// (docs/experiments/cpu-linear-layers.md): fewer leave most of an A tile empty, and the sums of
/// small groups are scaled more often than they are multiplied.
std::int64_t fewest_tokens(std::int64_t group_inputs) {
  return group_inputs < 2 * kUnit ? 32 : 16;
}

std::int64_t direct_rows(std::int64_t group_inputs) {
  static const Variant few = avx512vbmi_variant();
  return std::min(few.direct_rows(group_inputs), fewest_tokens(group_inputs) - 1);
}

void run(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end, float* y,
         std::int64_t ldy) {
  static const Variant few = avx512vbmi_variant();
  if (x.m < fewest_tokens(w.group_inputs)) {
    return few.run(w, x, begin, end, y, ldy);
  }
  run_amx<HardwareTiles, Lanes512>(w, x, begin, end, y, ldy);
}

// Tiles of zeros would be multiplied at a clock a fifth higher than those of a model.
std::int64_t multiply_registers(std::int64_t rounds) {
  alignas(64) std::uint8_t codes[kAmxTokens * kAmxInputs];
  std::uint32_t state = 1;
  for (std::uint8_t& code : codes) {
    state = state * 1664525u + 1013904223u;
    code = static_cast<std::uint8_t>(state >> 24);
  }
  const TileScope<HardwareTiles> scope(amx_config(kAmxInputs));
  HardwareTiles::load<4>(codes, kAmxInputs);
  HardwareTiles::load<6>(codes, kAmxInputs);
  HardwareTiles::zero<0>();
  HardwareTiles::zero<1>();
  HardwareTiles::zero<2>();
  HardwareTiles::zero<3>();
  for (std::int64_t round = 0; round < rounds; ++round) {
    HardwareTiles::multiply<0, 4, 6, true>();
    HardwareTiles::multiply<1, 4, 6, true>();
    HardwareTiles::multiply<2, 4, 6, true>();
    HardwareTiles::multiply<3, 4, 6, true>();
  }
  return rounds * 4 * kAmxTokens * kTileRows * 2 * kUnit;
}

}  // namespace

Variant amxint8_variant() {
  Variant variant = avx512vbmi_variant();
  variant.name = "amxint8";
  variant.needs = "AMX-INT8 (with AVX512-VBMI, and tile registers that Linux grants)";
  variant.runs_here = [] { return cpu_features().amxint8 && may_use_tiles(); };
  variant.run = run;
  variant.multiply_registers = multiply_registers;
  variant.direct_rows = direct_rows;
  variant.block_tokens = amx_block_tokens;
  variant.has_tile_registers = true;
  return variant;
}

}  // namespace nibble::ops::cpu
