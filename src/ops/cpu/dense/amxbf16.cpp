#include "ops/cpu/cpu_features.h"
#include "ops/cpu/dense/float_lanes512.h"
#include "ops/cpu/dense/float_tile_kernel.h"
#include "ops/cpu/dense/float_tiles.h"
#include "ops/cpu/tiles/hardware_tiles.h"
#include "ops/cpu/tiles/tile_permission.h"

// The loops of float_tile_kernel.h on the tile registers of the CPU.
namespace nibble::ops::cpu {
namespace {

bool runs_here() {
  return cpu_features().amxbf16 && may_use_tiles();
}

// Digits of numbers as they come, not of zeros, at which the clock is higher.
std::int64_t multiply_registers(std::int64_t rounds) {
  alignas(64) std::uint16_t digits[kTileHalves];
  std::uint32_t state = 1;
  for (std::uint16_t& digit : digits) {
    state = state * 1664525u + 1013904223u;
    digit = static_cast<std::uint16_t>((state >> 16 & 0x807fu) | 0x3f00u);  // 0.5 to 1, signed
  }
  const TileScope<HardwareTiles> scope(float_tile_config(kGroupTokens));
  HardwareTiles::load<kLeftA>(digits, kTileRegisterBytes);
  HardwareTiles::load<kHighB>(digits, kTileRegisterBytes);
  HardwareTiles::zero<0>();
  HardwareTiles::zero<1>();
  HardwareTiles::zero<2>();
  HardwareTiles::zero<3>();
  for (std::int64_t round = 0; round < rounds; ++round) {
    HardwareTiles::multiply_bf16<0, kLeftA, kHighB>();
    HardwareTiles::multiply_bf16<1, kLeftA, kHighB>();
    HardwareTiles::multiply_bf16<2, kLeftA, kHighB>();
    HardwareTiles::multiply_bf16<3, kLeftA, kHighB>();
  }
  return rounds * 4 * kTileHalves * kGroupTokens;
}

}  // namespace

const FloatTiles& float_tiles_amxbf16() {
  static constexpr FloatTiles kTiles = {
      .name = "amxbf16",
      .needs = "AMX-BF16 (with AVX512-VBMI, and tile registers that Linux grants)",
      .runs_here = runs_here,
      .split = split_tokens<FloatLanes512>,
      .multiply = multiply_floats<HardwareTiles, FloatLanes512>,
      .unpanelled_tokens = kUnpanelledTokens,
      .multiply_registers = multiply_registers,
  };
  return kTiles;
}

}  // namespace nibble::ops::cpu
