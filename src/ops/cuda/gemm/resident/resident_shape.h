#pragma once

#include <cstdint>

#include "ops/cuda/gemm/ring.h"
#include "ops/cuda/gemm/scaling.h"
#include "ops/cuda/gemm/staged_shape.h"
#include "ops/cuda/packed/unit_format.h"

/// How the kernel whose inputs stay in shared memory (gemm_resident.cuh) is made.
namespace nibble::ops::cuda {

inline constexpr int kResidentWarpgroups = 2;      // which take turns
inline constexpr int kResidentPieceBytes = 16384;  // of a warpgroup's results on their way out
inline constexpr int kFewestSlots = 3;
inline constexpr int kMostSlots = 8;

/// Where things lie in shared memory, in bytes: inputs first, a unit along k after the other, then
/// results of each warpgroup on their way out, slots for units of weights, scales of tokens for
/// each warpgroup, and barriers.
struct ResidentLayout {
  int unit_bytes = 0;  // inputs of all tokens
  int pieces = 0;
  int slots = 0;
  int slot_count = 0;
  int scales = 0;
  int inputs_full = 0;   // a barrier for each unit
  int inputs_empty = 0;  // one
  int slots_full = 0;    // one for each slot
  int slots_empty = 0;
  int bytes = 0;  // of all
};

/// With as many slots of `slot_bytes` as fit.
constexpr ResidentLayout resident_layout(int tokens, int units_along_k, int slot_bytes) {
  ResidentLayout layout;
  layout.unit_bytes = tokens * static_cast<int>(kUnitInputs);
  layout.pieces = units_along_k * layout.unit_bytes;
  layout.slots = layout.pieces + kResidentWarpgroups * kResidentPieceBytes;
  const int scale_bytes = kResidentWarpgroups * tokens * 4;
  const int left = kSharedBytes - layout.slots - scale_bytes - 8 * (units_along_k + 1);
  layout.slot_count = left / (slot_bytes + 16);
  if (layout.slot_count > kMostSlots) {
    layout.slot_count = kMostSlots;
  }
  if (layout.slot_count < 0) {
    layout.slot_count = 0;
  }
  layout.scales = layout.slots + layout.slot_count * slot_bytes;
  layout.inputs_full = layout.scales + scale_bytes;
  layout.inputs_empty = layout.inputs_full + 8 * units_along_k;
  layout.slots_full = layout.inputs_empty + 8;
  layout.slots_empty = layout.slots_full + 8 * layout.slot_count;
  layout.bytes = layout.slots_empty + 8 * layout.slot_count;
  return layout;
}

/// Whether so many inputs of so many tokens fit, beside slots for units of weights.
constexpr bool fits_resident(int tokens, std::int64_t inputs, int slot_bytes) {
  return inputs <= kSharedBytes &&
         resident_layout(tokens, static_cast<int>((inputs + kUnitInputs - 1) / kUnitInputs),
                         slot_bytes)
                 .slot_count >= kFewestSlots;
}

/// For kTokens_ tokens whose inputs stay.
template <class Codes_, int kTokens_>
struct ResidentShape {
  using Codes = Codes_;
  using Sum = typename Codes::Sum;
  static constexpr int kTokens = kTokens_;
  static constexpr int kSums = kTokens / 2;                       // of a lane, for 64 rows
  static constexpr int kMultiplying = 128 * kResidentWarpgroups;  // threads
  static constexpr int kThreads = kMultiplying + 128;             // and a warpgroup that copies
  static constexpr Scaling kScaling = Scaling::kByRow;
  static constexpr bool kScaledByToken = true;
  static constexpr bool kSendsBlocks = false;
  static constexpr StagedShape kStaged = staged_shape(kTokens, kResidentPieceBytes);
};

/// The strips of 64 rows of a tile of tokens are cut into parts, and blocks of threads take one
/// part after the other.
struct ResidentParts {
  int count = 1;      // of a tile of tokens
  double time = 0.0;  // of all, in the times of a strip
};

/// Those that are done soonest.
constexpr ResidentParts resident_parts(int strips, int token_tiles, int blocks) {
  constexpr double kLoad = 2.0;  // what it takes to begin a part, in strips
  ResidentParts best;
  for (int count = 1; count <= strips; ++count) {
    const int rounds = (token_tiles * count + blocks - 1) / blocks;
    const int strips_each = (strips + count - 1) / count;
    const double time = rounds * (kLoad + strips_each);
    if (count == 1 || time < best.time) {
      best = {count, time};
    }
  }
  return best;
}

}  // namespace nibble::ops::cuda
