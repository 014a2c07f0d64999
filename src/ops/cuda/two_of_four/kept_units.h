#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// How weights of which two of each four inputs are stored (formats/two_of_four.h) lie in the
/// memory of a GPU: as the left operands of its sparse products (PTX ISA, "warp level matrix
/// multiply-accumulate for sparse matrices", mma.sp; wgmma has the same for each warp).
///
/// A unit is 16 rows and 128 inputs. Lane 4 g + t of a warp has in it
///
///   codes    words, cut into 16 bytes: the first of all lanes come first, then their second ones
///   indices  two words: 4 bits for each four
///   scales   of rows g and g + 8, two float16: one for the unit, or one for each of its blocks
///   zeros    the same in bytes: rows g and g + 8
///
/// Scales and zeros are the same for all t, and float16 weights have none. A unit of 4 bits with
/// one scale takes 816 bytes, 3.19 bits per weight.
///
/// For products of float16 (m16n8k32) a block is 32 inputs in their own order. Of each block a lane
/// has fours t and 4 + t: the stored pair of row g, then that of row g + 8.
///
///   4 bits: a word. Pair i has bits 4 i .. 4 i + 3 and 16 + 4 i .. 19 + 4 i
///   8 bits: two words. Pair i is in word i / 2, bits 8 (i % 2) .. and 16 + 8 (i % 2) ..
///   16 bits: four words, each a pair
///   indices: word i is of block 2 i + t / 2, inputs 16 (t % 2) .. of it: row g, then row g + 8
///
/// For products of INT8 (m16n8k64) a block is 64 inputs in tile order (kByteTiles, input_target.h),
/// which changes the places of fours among eight and of inputs in a four. Of each block a lane has,
/// by their places, fours 2 t and 2 t + 1 (half 0) and 8 + 2 t and 9 + 2 t (half 1): four codes of
/// a row.
///
///   4 bits: word `half`. Code i of row g has bits 8 i .. 8 i + 3, of row g + 8 8 i + 4 .. 8 i + 7
///   8 bits: word 2 half + (row >= 8), code i in byte i, its highest bit turned over
///   indices: word i is of block i, row g + 8 (t % 2), places 32 (t / 2) .. of it
///
/// Four units of the same inputs, of 64 rows, lie together, and those of the next inputs follow.
/// Rows behind the last are 0, and so are inputs, but for indices that ascend.
namespace nibble::ops::cuda {

inline constexpr int kKeptRows = 16;    // of a unit
inline constexpr int kKeptInputs = 32;  // of a block of float16 products
inline constexpr int kKeptBlocks = 4;   // of a unit
inline constexpr int kKeptUnitInputs = kKeptBlocks * kKeptInputs;
inline constexpr int kIntegerInputs = 64;  // of a block of INT8 products
inline constexpr int kIntegerBlocks = kKeptUnitInputs / kIntegerInputs;
inline constexpr int kKeptTiles = 4;  // of 16 rows, whose units lie together
inline constexpr int kKeptGroupRows = kKeptTiles * kKeptRows;
inline constexpr int kKeptLanes = 32;
inline constexpr int kKeptPairs = 4;  // registers of a left operand

/// How the units of a layer are made up.
struct KeptForm {
  int bits = 4;           // of a weight: 4, 8 or 16
  int scales = 1;         // of a row in a unit: 1 or kKeptBlocks, or 0 of float16 weights
  bool integers = false;  // for products of INT8; else of float16
  bool by_row = false;    // all units have the same scales: sums of INT8 run over a row

  constexpr int words() const { return bits / 4; }  // of a lane's codes in 32 inputs
  constexpr int indices() const {
    return kKeptBlocks * words() * 4 * kKeptLanes;
  }  // where they begin
  constexpr int scales_at() const { return indices() + 8 * kKeptLanes; }
  constexpr int zeros_at() const { return scales_at() + 4 * (kKeptRows / 2) * scales; }
  constexpr int bytes() const { return zeros_at() + 2 * (kKeptRows / 2) * scales; }

  friend bool operator==(const KeptForm&, const KeptForm&) = default;
};
static_assert(KeptForm{4, 1}.bytes() == 816);

/// Byte of word `word` of a lane's codes in a unit.
constexpr int kept_word_at(int lane, int word) {
  return (word / 4 * kKeptLanes + lane) * 16 + word % 4 * 4;
}

/// Number of the unit of a tile of 16 rows, of `units` along the inputs.
constexpr std::int64_t kept_unit(std::int64_t tile, std::int64_t unit, std::int64_t units) {
  return (tile / kKeptTiles * units + unit) * kKeptTiles + tile % kKeptTiles;
}

/// On the host.
struct PackedKept {
  KeptForm form;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::vector<std::byte> units;  // [ceil(n / 64)][ceil(k / 128)][4] units

  std::int64_t units_along_k() const { return (k + kKeptUnitInputs - 1) / kKeptUnitInputs; }
};

}  // namespace nibble::ops::cuda
