#include "ops/cpu/dense/emulated_floats_for_tests.h"

#include <gtest/gtest.h>

#include "ops/cpu/architecture/architecture.h"
#include "ops/cpu/dense/float_tile_kernel.h"
#include "ops/cpu/dense/plain_float_lanes.h"
#include "ops/cpu/tiles/emulated_tiles.h"

namespace nibble::ops::cpu {

const FloatTiles& emulated_floats() {
  static constexpr FloatTiles kTiles = {
      .name = "emulated tiles",
      .needs = "nothing",
      .runs_here = [] { return true; },
      .split = split_tokens<PlainFloatLanes>,
      .multiply =
          [](const FloatTileTask& task) {
            multiply_floats<EmulatedTiles, PlainFloatLanes>(task);
            ASSERT_FALSE(EmulatedTiles::is_configured()) << "the tile configuration leaks";
          },
      .unpanelled_tokens = kUnpanelledTokens,
  };
  return kTiles;
}

FloatTiles with_limit(const FloatTiles& tiles, std::int64_t unpanelled) {
  FloatTiles other = tiles;
  other.unpanelled_tokens = unpanelled;
  return other;
}

std::vector<const FloatTiles*> float_tiles_of_tests() {
  std::vector<const FloatTiles*> tested = {&emulated_floats()};
#if defined(__x86_64__)
  tested.push_back(&emulated_floats_avx512());
#endif
  if (architecture_float_tiles() != nullptr) {
    tested.push_back(architecture_float_tiles());
  }
  std::erase_if(tested, [](const FloatTiles* tiles) { return !tiles->runs_here(); });
  return tested;
}

}  // namespace nibble::ops::cpu
