#include "ops/cpu/attention/tiles/attention_lanes512.h"
#include "ops/cpu/attention/tiles/attention_tile_kernel.h"
#include "ops/cpu/attention/tiles/attention_tiles.h"
#include "ops/cpu/cpu_features.h"
#include "ops/cpu/tiles/hardware_tiles.h"
#include "ops/cpu/tiles/tile_permission.h"

// The loops of attention_tile_kernel.h on the tile registers of the CPU.
namespace nibble::ops::cpu {

const AttentionTiles& attention_tiles_amxbf16() {
  static constexpr AttentionTiles kTiles = {
      .name = "amxbf16",
      .runs_here = [] { return cpu_features().amxbf16 && may_use_tiles(); },
      .split_keys = split_keys<AttentionLanes512>,
      .split_values = split_values<AttentionLanes512>,
      .attend = attend_groups<HardwareTiles, AttentionLanes512>,
  };
  return kTiles;
}

}  // namespace nibble::ops::cpu
