#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ops/cuda/layer_chain/layer_chain.h"

/// Between layer_chain.cpp and the kernel of layer_chain.cu.
namespace nibble::ops::cuda {

inline constexpr int kChainWarps = 8;       // that multiply
inline constexpr int kCopyingWarps = 4;     // each fills the rings of two of them
inline constexpr int kMostChainStages = 8;  // pieces of each warp in shared memory
inline constexpr int kFewestChainStages = 2;
inline constexpr int kPieceTiles = 4;  // tiles times groups of a piece
inline constexpr int kPagePieceBytes =
    4224;  // of keys and values; no more than any piece of weights

inline constexpr std::int64_t kMostChainedRows = std::int64_t{1} << 22;  // of a layer

/// A layer as the kernel has it; or, where there are pages, an attention.
// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): both members of a union begin as null
struct alignas(16) ChainPhase {
  const std::byte* units = nullptr;
  const float* bias = nullptr;
  const std::int8_t* codes = nullptr;  // two digits of base 255 (LaneActivations)
  const float* scales = nullptr;       // [blocks] of codes
  const float* row = nullptr;          // in the place of codes; of an attention q, k and v
  const float* norm = nullptr;
  float* y = nullptr;
  float* sent = nullptr;               // y once more, for the next phase; or null
  std::uint32_t* sent_runs = nullptr;  // [thread blocks], of `sent`
  float eps = 0.0f;
  float inverse_inputs = 0.0f;  // 1 / inputs
  int blocks = 0;               // of 128 inputs
  std::int16_t tiles_each = 0;  // row tiles of a thread block
  std::int16_t more_from = 0;   // the first thread block that has one more, as all behind it
  bool reads_sent = false;      // `row` is what the phase before sent
  bool merges = false;          // of an attention in parts (HeadShare)
  bool adds = false;
  bool gated = false;
  std::uint8_t gate = 0;  // MlpActivation

  std::byte* pages = nullptr;  // of an attention's layer
  union {
    const float* q_norm = nullptr;  // of an attention
    const std::int8_t* tables;      // of a layer whose codes have books
  };
  union {
    const float* k_norm = nullptr;
    const float* factors;  // likewise
  };
  const float* key_centre = nullptr;  // of an attention
};

static_assert(sizeof(ChainPhase) == 128, "phases must leave room for weights");

/// Types of keys and values, and elements of a head, of the attentions of a chain.
enum class ChainedHeads {
  kF16x64,
  kF16x128,
  kInt8x64,
  kInt8x128,
  kFp8x64,
  kFp8x128,
  kInt4x64,
  kInt4x128
};

/// What all attentions of a chain have in common.
struct ChainAttention {
  AttentionLayer layer;              // but for norms and key centres
  const DecodeItem* item = nullptr;  // the first one of the row; null: there is no attention
  const std::int32_t* table = nullptr;
  ChainedHeads kind = {};
  int heads = 0;
  int group = 0;       // query heads of a KV head
  float scale = 0.0f;  // of scores, times log2 e
  int most_parts = 0;  // thread blocks of a head, at the most

  /// A page's block comes in one piece, or, where it is too large, in keys and all else.
  int block_bytes = 0;
  int first_bytes = 0;  // of a block's first piece
  int rest_bytes = 0;   // of its second one, or 0
};

struct alignas(16) ChainArguments {
  ChainAttention attention;
  UnitFormat format;  // of all weights
  int count = 0;
  int stages = 0;
  // The largest of all phases:
  int rows = 0;    // of a thread block
  int groups = 0;  // of 128 inputs, of a warp
  ChainPhase phases[kMostChained];

  /// Of what the kernel reads.
  constexpr int bytes() const {
    return static_cast<int>(sizeof(ChainArguments)) -
           (static_cast<int>(kMostChained) - count) * static_cast<int>(sizeof(ChainPhase));
  }
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

/// The row's tokens, which the whole chain attends to.
struct ChainTokens {
  int table = 0;     // where its pages begin in the page table
  int pages = 0;     // of the tokens before it
  int first = 0;     // position of the first page's first token
  int begin = 0;     // positions that the row sees: [begin, position]
  int position = 0;  // of the row
  int slot = 0;      // where its token is kept
};

/// Which head a thread block attends with, and to which of its pages: pages go to the warps of all
/// parts of a head in turns, and then the new token.
struct HeadShare {
  /// A part has no fewer pages, while there is one alone.
  static constexpr int kPagesOfPart = 16;

  int parts;
  int head;
  int part;

  constexpr HeadShare(const ChainAttention& attention, const ChainTokens& tokens, int block)
      : parts(parts_of(attention, tokens)),
        head(block % attention.heads),
        part(block / attention.heads) {}
  static constexpr int parts_of(const ChainAttention& attention, const ChainTokens& tokens) {
    return std::clamp((tokens.pages + kPagesOfPart - 1) / kPagesOfPart, 1, attention.most_parts);
  }
  constexpr bool attends() const { return part < parts; }
  constexpr int first_page(int warp) const { return part * kChainWarps + warp; }
  constexpr int page_stride() const { return parts * kChainWarps; }
  /// The part and the warp that attend to the new token.
  constexpr int newest_part(int pages) const { return pages / kChainWarps % parts; }
  static constexpr int newest_warp(int pages) { return pages % kChainWarps; }
};

/// Where attentions put what they found. Parts of a head follow one another: first all results,
/// before they are divided by the sums, then for each head the largest score and the sum.
struct HeadParts {
  static constexpr std::int64_t floats(int heads, std::int64_t head_dim, int parts) {
    return std::int64_t{parts} * heads * (head_dim + 2);
  }
  static constexpr int out(const ChainAttention& a, int part, int head) {
    return (part * a.heads + head) * static_cast<int>(a.layer.layout.head_dim);
  }
  static constexpr int numbers(const ChainAttention& a, int part, int head) {
    return out(a, a.most_parts, 0) + 2 * (part * a.heads + head);
  }
};

/// Where things lie in the shared memory of a thread block. Offsets in bytes.
struct ChainMemory {
  UnitFormat format;
  int stages;
  int rows;
  int groups;
  int argument_bytes;
  int angles;

  // Of a warp: barriers "full" and "empty" of its stages.
  static constexpr int kBarrierBytes = 2 * kMostChainStages * 8;
  // Keeps the two digits apart in the banks.
  static constexpr int kDigitPadding = 16;
  // Of an attention: what each warp found of a head, and what the new token adds; each warp's
  // query.
  static constexpr int kFoundBytes = (128 + 4 + 2) * 4 + 8;
  static constexpr int kQueryBytes = (128 + 8) * 2;
  static constexpr int kQueriesAt = (kChainWarps + 1) * kFoundBytes;
  /// ChainArguments::rows of attentions, which lie in the place of sums.
  static constexpr int kAttentionRows =
      (kQueriesAt + kChainWarps * kQueryBytes + kChainWarps * 4 - 1) / (kChainWarps * 4);

  /// `of_all`: a.format, which a kernel knows when it is compiled.
  constexpr ChainMemory(const ChainArguments& a, const UnitFormat& of_all)
      : format(of_all),
        stages(a.stages),
        rows(a.rows),
        groups(a.groups),
        argument_bytes(a.bytes()),
        angles(a.attention.item == nullptr ? 0 : static_cast<int>(a.attention.layer.rotary) / 2) {}
  constexpr int piece_bytes() const { return kPieceTiles * static_cast<int>(format.tile_bytes()); }
  constexpr int rings() const { return kChainWarps * kBarrierBytes; }
  constexpr int ring(int warp) const { return rings() + warp * stages * piece_bytes(); }
  // [rows][warps], for two phases in turns
  constexpr int sums_of(int side) const {
    return ring(kChainWarps) + side * rows * kChainWarps * 4;
  }
  // [warps], for two phases in turns
  constexpr int squares_of(int side) const { return sums_of(2) + side * kChainWarps * 4; }
  // Of a warp: two digits, then for each group its scale and sums of codes (ChainInputs).
  constexpr int digit_stride() const { return groups * 128 + kDigitPadding; }
  static constexpr int note_bytes(std::int64_t groups_of_unit) {
    return groups_of_unit == 1 ? 8 : 32;
  }
  constexpr int inputs(int warp) const {
    const int notes = (groups * note_bytes(format.groups) + 15) / 16 * 16;
    return squares_of(2) + warp * (2 * digit_stride() + notes);
  }
  // A copy of the arguments: constants come from memory when they are first read, behind weights.
  constexpr int arguments() const { return inputs(kChainWarps); }
  constexpr int tokens() const { return arguments() + argument_bytes; }
  // RoPE at the row's position: cosine and sine.
  constexpr int turns() const {
    return tokens() + (static_cast<int>(sizeof(ChainTokens)) + 15) / 16 * 16;
  }
  // Of the thread block's rows, for two layers in turns; 16 bytes each, of books only.
  constexpr int tables_of(int side) const {
    return turns() + (angles * 8 + 15) / 16 * 16 + side * (is_book(format.codes) ? rows * 16 : 0);
  }
  constexpr int bytes() const { return tables_of(2); }
};

/// The most shared memory of a thread block that runs the kernel; 0: this device does not.
int chain_shared_bytes();
/// Whether there is a kernel for weights of this kind.
bool has_chain_kernel(const UnitFormat& format);
void launch_chain(const ChainArguments& arguments, int blocks, cudaStream_t stream);

}  // namespace nibble::ops::cuda
