#pragma once

namespace nibble::ops::cuda {

inline constexpr int kSharedBytes = 227 * 1024;  // of a block, the most on sm_90

/// The ring in shared memory through which the copying warp feeds those that multiply. A stage
/// holds one unit along k: the inputs of the tile's tokens, the packed units of its row groups and,
/// where inputs are scaled by group, the tokens' scales; and two barriers, on which it becomes full
/// and empty. Parts of one kind lie together; inputs come first, each a multiple of 1024 bytes.
struct RingLayout {
  int stages = 0;
  int units = 0;   // where the units of stage 0 begin
  int scales = 0;  // its tokens' scales
  int full = 0;    // its barriers
  int empty = 0;
  int bytes = 0;  // of all
};

/// With as many stages as fit.
constexpr RingLayout ring_layout(int input_bytes, int unit_bytes, int scale_bytes,
                                 int memory_bytes) {
  constexpr int kMostStages = 8;
  constexpr int kBarrierBytes = 8;
  const int stage = input_bytes + unit_bytes + scale_bytes + 2 * kBarrierBytes;
  RingLayout layout;
  layout.stages = memory_bytes / stage < kMostStages ? memory_bytes / stage : kMostStages;
  layout.units = layout.stages * input_bytes;
  layout.scales = layout.units + layout.stages * unit_bytes;
  layout.full = layout.scales + layout.stages * scale_bytes;
  layout.empty = layout.full + layout.stages * kBarrierBytes;
  layout.bytes = layout.empty + layout.stages * kBarrierBytes;
  return layout;
}

}  // namespace nibble::ops::cuda
