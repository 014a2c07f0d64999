#pragma once

#include <cstdint>

#include "ops/cuda/gemm/scaling.h"
#include "ops/cuda/gemm/staged_shape.h"
#include "ops/cuda/packed/unit_format.h"

/// How the kernel whose inputs stay in shared memory (gemm_resident.cuh) is made.
namespace nibble::ops::cuda {

inline constexpr int kResidentBytes = 227 * 1024;     // of shared memory: the most of a block
inline constexpr int kResidentWarpgroups = 2;         // which take turns
inline constexpr int kResidentPieceBytes = 2 * 8192;  // of a warpgroup's results on their way out

/// Where things lie in shared memory: inputs first, a unit along k after the other, then results,
/// scales of tokens, and a barrier for each unit. Offsets in bytes.
struct ResidentLayout {
  int unit_bytes = 0;  // of all tokens
  int pieces = 0;
  int scales = 0;
  int barriers = 0;
  int bytes = 0;  // of all
};

constexpr ResidentLayout resident_layout(int tokens, int units_along_k) {
  ResidentLayout layout;
  layout.unit_bytes = tokens * static_cast<int>(kUnitInputs);
  layout.pieces = units_along_k * layout.unit_bytes;
  layout.scales = layout.pieces + kResidentWarpgroups * kResidentPieceBytes;
  layout.barriers = layout.scales + tokens * 4;
  layout.bytes = layout.barriers + units_along_k * 8;
  return layout;
}

/// Whether so many inputs of so many tokens fit.
constexpr bool fits_resident(int tokens, std::int64_t inputs) {
  return inputs <= kResidentBytes &&
         resident_layout(tokens, static_cast<int>((inputs + kUnitInputs - 1) / kUnitInputs))
                 .bytes <= kResidentBytes;
}

/// For kTokens_ tokens whose inputs stay.
template <class Codes_, int kTokens_>
struct ResidentShape {
  using Codes = Codes_;
  using Sum = typename Codes::Sum;
  static constexpr int kTokens = kTokens_;
  static constexpr int kSums = kTokens / 2;  // of a lane, for 64 rows
  static constexpr int kThreads = 128 * kResidentWarpgroups;
  static constexpr Scaling kScaling = Scaling::kByRow;
  static constexpr bool kScaledByToken = true;
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
  constexpr double kLoad = 3.0;  // what it takes to begin a part, in strips
  ResidentParts best;
  for (int count = 1; count <= strips; ++count) {
    const int rounds = (token_tiles * count + blocks - 1) / blocks;
    const double time = rounds * (kLoad + (strips + count - 1) / count);
    if (count == 1 || time < best.time) {
      best = {count, time};
    }
  }
  return best;
}

}  // namespace nibble::ops::cuda
