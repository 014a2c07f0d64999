#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// How block-sparse rows (formats/block_sparse.h) lie in the memory of a GPU.
///
/// A *block* is 16 weights of a row that lie side by side, and what multiplies them: groups of 32
/// and 64 are two and four blocks. Codes of more than 4 bits are two blocks of the same place in
/// neighbouring lanes of an octet, whose sum they are: the low 4 bits of codes and zero point with
/// the scale, and the high bits with 16 times the scale. The blocks that a row keeps are cut into
/// *octets*, filled up with blocks of scale 0; a row that keeps none has one of those. Octets are
/// what is shared: each thread block of the kernel takes rows with as many octets as the others,
/// each of its warps the same number of octets, and each of the four *streams* of a warp (8 lanes)
/// a fourth of them, across the ends of rows (Stream-K, arXiv 2301.03598).
///
///   octets of a thread block  | row 0        | row 1 | row 2              | row 3  |
///   streams                   | 0      | 1      | 2      | 3      | 4      | 5     |
///
/// Two octets of each stream of a warp are a *unit* of 768 bytes, which a warp reads at once:
///
///   codes   16 bytes of lane 0, of lane 1, ..: 8 of a block of the stream's first octet, then 8 of
///           the second. 4 bits each, LSB first
///   words   8 bytes of lane 0, of lane 1, ..: one word for each of the two
///             bits 0 to 10   which block of its row it is
///             bits 11 to 14  its zero point
///             bit 15         whether the octet ends its row, or its stream
///             bits 16 to 31  its scale, a float16
///
/// So a block takes 12 bytes: 3 bits for each weight of a matrix that keeps half of them. Warps
/// have places of equal size, so that each knows where its units begin; those behind its last are
/// not read. Within a row blocks stand in an order in which those of an octet lie in other banks of
/// shared memory where that is possible: their numbers differ in the lowest three bits.
///
/// Where a stream comes to the end of a row, or ends, it leaves what it has of the row: the piece
/// number `stream + row`, counted within the thread block. So the pieces of a row follow one
/// another.
namespace nibble::ops::cuda {

inline constexpr std::int64_t kSparseInputs = 16;  // of a block
inline constexpr std::int64_t kOctet = 8;          // blocks
inline constexpr int kWarpStreams = 4;
inline constexpr std::int64_t kUnitOctets = std::int64_t{2} * kWarpStreams;
inline constexpr std::int64_t kSparseUnitBytes = 768;
inline constexpr std::int64_t kSparseUnitWords = 512;  // where the words begin

inline constexpr int kIndexBits = 11;
inline constexpr std::int64_t kMostSparseInputs = (std::int64_t{1} << kIndexBits) * kSparseInputs;
inline constexpr int kZeroShift = 11;
inline constexpr std::uint32_t kEndsBit = 1u << 15;
inline constexpr int kScaleShift = 16;

inline constexpr int kBlockBits = 4;                    // of a code in a block
inline constexpr float kHighScale = 1 << kBlockBits;    // of a block of high bits
inline constexpr int kMostSparseBits = 2 * kBlockBits;  // of a weight's code
constexpr int blocks_of_codes(int bits) {
  return bits > kBlockBits ? 2 : 1;
}

inline constexpr int kMostSparseBlocks = 1024;  // thread blocks
inline constexpr int kMostSparseWarps = 32;     // of a thread block, a power of two

/// How rows are shared.
struct SparsePlan {
  int blocks = 1;        // thread blocks, 1 to kMostSparseBlocks
  int warps = 32;        // of each: a power of two up to kMostSparseWarps
  bool by_rows = false;  // as many rows for each thread block instead of as many octets, to compare
};

/// The share of a thread block.
struct SparseShare {
  std::int32_t units = 0;
  std::int32_t first_row = 0;
  std::int32_t rows = 0;
  std::int32_t unused = 0;  // 16 bytes in all
};

/// Which pieces are a row: `first` of its thread block and `count` - 1 that follow it.
struct RowPieces {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};
constexpr std::uint32_t word_of(RowPieces pieces) {
  return pieces.first << 8 | (pieces.count - 1);
}
constexpr RowPieces pieces_of(std::uint32_t word) {
  return {word >> 8, (word & 0xffu) + 1};
}

/// Units of a warp: those of a thread block are divided among its warps, the first ones have one
/// more.
constexpr std::int32_t warp_units(std::int32_t units, int warp, int warps_log2) {
  const std::int32_t each = units >> warps_log2;
  return each + (warp < units - (each << warps_log2) ? 1 : 0);
}

/// On the host.
struct PackedSparse {
  SparsePlan plan;
  std::int64_t n = 0;
  std::int64_t k = 0;
  int code_blocks = 1;                     // blocks_of_codes()
  std::vector<SparseShare> shares;         // [plan.blocks]
  std::vector<std::byte> units;            // kSparseUnitBytes each
  std::vector<std::uint32_t> rows;         // [n] word_of(RowPieces)
  std::vector<std::uint16_t> stream_rows;  // [blocks][warps * 4]: the row in which a stream begins
  std::int64_t most_rows = 0;              // of a thread block
  std::int64_t stride = 0;                 // units from warp to warp
};

}  // namespace nibble::ops::cuda
