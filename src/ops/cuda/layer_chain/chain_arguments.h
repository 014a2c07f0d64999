#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cuda/layer_chain/layer_chain.h"

/// Between layer_chain.cpp and the kernel of layer_chain.cu.
namespace nibble::ops::cuda {

inline constexpr int kChainWarps = 8;       // that multiply
inline constexpr int kCopyingWarps = 4;     // each fills the rings of two of them
inline constexpr int kMostChainStages = 8;  // pieces of each warp in shared memory
inline constexpr int kFewestChainStages = 2;
inline constexpr int kChainTileBytes = 1056;  // of INT4 with one group: codes and scales
inline constexpr int kPieceTiles = 4;         // tiles times groups of a piece
inline constexpr int kPieceBytes = kPieceTiles * kChainTileBytes;

/// A layer as the kernel has it.
struct ChainPhase {
  const std::byte* units = nullptr;
  const float* bias = nullptr;
  const std::int8_t* codes = nullptr;  // two digits of base 255 (LaneActivations)
  const float* scales = nullptr;       // [blocks] of codes
  const float* row = nullptr;          // in the place of codes
  const float* norm = nullptr;
  float* y = nullptr;
  float* sent = nullptr;               // y once more, for the next phase; or null
  std::uint32_t* sent_runs = nullptr;  // [thread blocks], of `sent`
  float eps = 0.0f;
  float inverse_inputs = 0.0f;  // 1 / inputs
  int blocks = 0;               // of 128 inputs
  int tiles_each = 0;           // row tiles of a thread block
  int more_from = 0;            // the first thread block that has one more, as all behind it
  int reads_sent = 0;           // `row` is what the phase before sent
  int adds = 0;
  int gated = 0;
  MlpActivation gate = MlpActivation::kSilu;
};

struct ChainArguments {
  ChainPhase phases[kMostChained];
  int count = 0;
  int stages = 0;
  // The largest of all phases:
  int rows = 0;    // of a thread block
  int groups = 0;  // of 128 inputs, of a warp
};

/// Row tiles of a thread block in a phase. Blocks that have more than others come last: what reads
/// their results begins with those of the first ones, which are there sooner.
struct ChainShare {
  int begin;
  int end;
  constexpr ChainShare(const ChainPhase& phase, int block)
      : begin(block * phase.tiles_each + (block > phase.more_from ? block - phase.more_from : 0)),
        end(begin + phase.tiles_each + (block >= phase.more_from ? 1 : 0)) {}
};

/// Where things lie in the shared memory of a thread block. Offsets in bytes.
struct ChainMemory {
  int stages;
  int rows;
  int groups;

  // Of a warp: barriers "full" and "empty" of its stages.
  static constexpr int kBarrierBytes = 2 * kMostChainStages * 8;
  // Keeps the two digits apart in the banks.
  static constexpr int kDigitPadding = 16;

  constexpr explicit ChainMemory(const ChainArguments& a)
      : stages(a.stages), rows(a.rows), groups(a.groups) {}
  constexpr int rings() const { return kChainWarps * kBarrierBytes; }
  constexpr int ring(int warp) const { return rings() + warp * stages * kPieceBytes; }
  // [two phases in turns][rows][warps]
  constexpr int sums() const { return ring(kChainWarps); }
  // [two phases in turns][warps]
  constexpr int squares() const { return sums() + 2 * rows * kChainWarps * 4; }
  // Of a warp: two digits, then for each group its scale and what its sum of codes takes away.
  constexpr int digit_stride() const { return groups * 128 + kDigitPadding; }
  constexpr int inputs(int warp) const {
    return squares() + 2 * kChainWarps * 4 + warp * (2 * digit_stride() + (groups + 1) / 2 * 16);
  }
  // A copy of the arguments: constants come from memory when they are first read, behind weights.
  constexpr int arguments() const { return inputs(kChainWarps); }
  constexpr int bytes() const { return arguments() + static_cast<int>(sizeof(ChainArguments)); }
};

/// The most shared memory of a thread block that runs the kernel; 0: this device does not.
int chain_shared_bytes();
void launch_chain(const ChainArguments& arguments, int blocks, cudaStream_t stream);

}  // namespace nibble::ops::cuda
