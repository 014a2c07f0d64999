#include "ops/cpu/cpu_features.h"
#include "ops/cpu/dense/emulated_floats_for_tests.h"
#include "ops/cpu/dense/float_lanes512.h"
#include "ops/cpu/dense/float_tile_kernel.h"
#include "ops/cpu/tiles/emulated_tiles.h"

namespace nibble::ops::cpu {

const FloatTiles& emulated_floats_avx512() {
  static constexpr FloatTiles kTiles = {
      .name = "emulated tiles, AVX-512",
      .needs = "AVX-512",
      .runs_here = [] { return cpu_features().avx512; },
      .split = split_tokens<FloatLanes512>,
      .multiply = multiply_floats<EmulatedTiles, FloatLanes512>,
      .unpanelled_tokens = kUnpanelledTokens,
  };
  return kTiles;
}

}  // namespace nibble::ops::cpu
