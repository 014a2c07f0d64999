#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// How weights of which two of each four inputs are stored (formats/two_of_four.h) lie in the
/// memory of a GPU: as the left operands of its sparse products (mma.sp m16n8k32, PTX ISA, "warp
/// level matrix multiply-accumulate for sparse matrices").
///
/// A *block* is 16 rows and 32 inputs. Four blocks side by side are a *unit*; lane 4 g + t of a
/// warp has in it
///
///   codes    for each block, of fours t and 4 + t: the stored pair of row g, then that of row g +
///   8
///              4 bits: a word. Pair i has bits 4 i .. 4 i + 3 and 16 + 4 i .. 19 + 4 i
///              8 bits: two words. Pair i is in word i / 2, bits 8 (i % 2) .. and 16 + 8 (i % 2) ..
///              16 bits: four words, each a pair
///            The words of a lane are cut into 16 bytes. The first of all lanes come first, then
///            their second ones
///   indices  8 bytes: a word for blocks t / 2 and another for blocks 2 + t / 2. Inputs 16 (t % 2)
///   ..
///            of the block: 4 bits for each four of row g as they are stored, then of row g + 8
///   scales   of rows g and g + 8, two float16: one for the unit, or one for each of its blocks
///   zeros    the same in bytes: rows g and g + 8
///
/// Scales and zeros are the same for all t, and float16 weights have none. A unit of 4 bits with
/// one scale takes 816 bytes, 3.19 bits per weight. Rows behind the last are 0, and so are inputs,
/// but for indices that ascend.
namespace nibble::ops::cuda {

inline constexpr int kKeptRows = 16;    // of a block
inline constexpr int kKeptInputs = 32;  // of a block
inline constexpr int kKeptBlocks = 4;   // of a unit
inline constexpr int kKeptUnitInputs = kKeptBlocks * kKeptInputs;
inline constexpr int kKeptLanes = 32;
inline constexpr int kKeptPairs = 4;  // of a lane in a block

/// How the units of a layer are made up.
struct KeptForm {
  int bits = 4;    // of a weight: 4, 8 or 16
  int scales = 1;  // of a row in a unit: 1 or kKeptBlocks, or 0 of float16 weights

  constexpr int words() const { return bits / 4; }  // of a lane's codes in a block
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

/// On the host.
struct PackedKept {
  KeptForm form;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::vector<std::byte> units;  // [ceil(n / 16)][ceil(k / 128)] units
};

}  // namespace nibble::ops::cuda
