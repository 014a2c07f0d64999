#include "ops/cpu/attention/tiles/attention_lanes512.h"
#include "ops/cpu/attention/tiles/attention_tile_kernel.h"
#include "ops/cpu/attention/tiles/emulated_attention_for_tests.h"
#include "ops/cpu/cpu_features.h"
#include "ops/cpu/tiles/emulated_tiles.h"

namespace nibble::ops::cpu {

const AttentionTiles& emulated_attention_avx512() {
  static constexpr AttentionTiles kTiles = {
      .name = "emulated tiles, AVX-512",
      .runs_here = [] { return cpu_features().avx512; },
      .split_keys = split_keys<AttentionLanes512>,
      .split_values = split_values<AttentionLanes512>,
      .attend = attend_groups<EmulatedTiles, AttentionLanes512>,
  };
  return kTiles;
}

}  // namespace nibble::ops::cpu
