#pragma once

#include <cstdint>

/// Attention in tile registers that multiply BF16 (AMX-BF16): many queries of a sequence against
/// blocks of its keys, as FlashAttention (arXiv 2205.14135) has it.
///
/// Queries, keys, values and weights are two digits of BF16, hi + lo, each rounded to nearest:
///
///   x = hi + lo + rest      |lo| <= 2^-8 |x|      |rest| <= 2^-17 |x|
///
/// Keys and values in float16 and FP8 leave no rest. All four products of digits are added: leaving
/// out that of the two lower ones would lose up to 2^-16 more. For each block of kBlockKeys keys:
///
///   s = scale q . k, capped if at all             in tiles; -infinity where the mask hides a key
///   m' = max(m, max s)      f = exp(m - m')
///   w = exp(s - m')         l = f l + sum w       in vectors, whose lanes are query rows
///   o = f o + sum w v                             in tiles, f in vectors
///
/// and at the end o / l. With u = 2^-24, r = 2^-17 for keys (values) in float32 and else 0, n
/// blocks of the keys that a query sees, a = scale max_j sum |q k_j| over these, A = max_j |v_j|:
///
///   |error of a score| <= e = (2^-17 + r + (24 + head_dim / 8) u) a, beside that of a cap
///   |error of an element| <= (2 e + 2^-17 + r + (70 + 21 n) u) A
///
/// A sum of TDPBF16PS is a chain of 16 additions, one of two such, and one for each 32 elements and
/// pair of digits. A weight errs by 9 u beside the score's error, and by 10 u for each block whose
/// maximum moves; that counts twice, in o and in l. For float32 vectors (5 + head_dim / 16) u stand
/// in the place of 2^-17 = 128 u and what is added to it in e. So the bound of a score is 18 times
/// as large with heads of 64; on random numbers errors of elements are 8 times those of float32
/// vectors, and a hundredth of what rounding keys and values to float16 does. What is below 2^-126
/// counts as 0, also as a digit.
///
/// Blocks lie at positions that are multiples of kBlockKeys, and a key that the mask hides adds
/// exact zeros. So a row's numbers depend on its query and the keys and values that it sees alone:
/// not on other rows, on where a sequence is cut, or on threads.
namespace nibble::ops::cpu {

inline constexpr std::int64_t kQueryLanes = 16;    // query rows of a tile
inline constexpr std::int64_t kTileKeys = 16;      // keys of a tile
inline constexpr std::int64_t kUnitKeys = 32;      // keys of a product with values
inline constexpr std::int64_t kBlockKeys = 64;     // between which maxima move
inline constexpr std::int64_t kBlockGroups = 4;    // tiles of queries that a block of keys meets
inline constexpr std::int64_t kStepElements = 32;  // of a head, that a product of queries adds up
inline constexpr std::int64_t kTileElements = 16;  // of a head, in a tile of values
inline constexpr std::int64_t kHeadDigits = 2;
inline constexpr std::int64_t kTileWords = 256;  // pairs of digits of a tile, and sums of one

constexpr std::int64_t head_steps(std::int64_t head_dim) {
  return (head_dim + kStepElements - 1) / kStepElements;
}
constexpr std::int64_t head_tiles(std::int64_t head_dim) {
  return (head_dim + kTileElements - 1) / kTileElements;
}
constexpr std::int64_t units_of(std::int64_t keys) {
  return (keys + kUnitKeys - 1) / kUnitKeys;
}
/// Words of the digits of so many keys, or values.
constexpr std::int64_t key_words(std::int64_t keys, std::int64_t head_dim) {
  return 2 * units_of(keys) * head_steps(head_dim) * kHeadDigits * kTileWords;
}
constexpr std::int64_t value_words(std::int64_t keys, std::int64_t head_dim) {
  return units_of(keys) * head_tiles(head_dim) * kHeadDigits * kTileWords;
}

/// Keys or values to cut into digits, from a position on that is a multiple of kBlockKeys.
struct VectorsToSplit {
  const float* x = nullptr;  // [count] rows of head_dim, ldx apart
  std::int64_t ldx = 0;
  std::int64_t count = 0;
  std::int64_t head_dim = 0;
  /// keys: [2 units][head steps][hi, lo][kTileKeys] rows of 32 elements, two in a word
  /// values: [units][head tiles][hi, lo][kTileElements] rows of 32 keys, two in a word
  /// What does not exist is 0. At the start of a cache line.
  std::uint32_t* digits = nullptr;
};

/// Up to kQueryLanes query rows, and the keys [from, to) that each sees, counted from the first
/// that was split; each sees one.
struct QueryGroup {
  std::int64_t rows = 0;
  const float* q[kQueryLanes] = {};
  float* out[kQueryLanes] = {};
  std::int32_t from[kQueryLanes] = {};
  std::int32_t to[kQueryLanes] = {};
};

/// Up to kBlockGroups groups that pass the keys together.
struct TiledQueries {
  const QueryGroup* groups = nullptr;
  std::int64_t count = 0;
  std::int64_t head_dim = 0;
  float scale = 1.0f;
  float softcap = 0.0f;  // 0: none
  void (*cap)(float softcap, float* scores, std::int64_t count) = nullptr;
  const std::uint32_t* keys = nullptr;
  const std::uint32_t* values = nullptr;
  float* work = nullptr;  // [work_floats(head_dim)], at the start of a cache line
};

/// Queries' digits, mixtures, maxima and sums of weights of each group; scores and weights' digits
/// of one, and four tiles of a mixture.
constexpr std::int64_t work_floats(std::int64_t head_dim) {
  const std::int64_t group =
      (head_steps(head_dim) * kHeadDigits + head_tiles(head_dim)) * kTileWords + 2 * kQueryLanes;
  const std::int64_t scores = kBlockKeys * kQueryLanes;
  return kBlockGroups * group + scores + scores * kHeadDigits / 2 + 4 * kTileWords;
}

/// The loops, on the hardware or on what stands in for it in tests.
struct AttentionTiles {
  const char* name = nullptr;
  bool (*runs_here)() = nullptr;  // the CPU and the operating system have what it needs
  void (*split_keys)(const VectorsToSplit&) = nullptr;
  void (*split_values)(const VectorsToSplit&) = nullptr;
  void (*attend)(const TiledQueries&) = nullptr;
};

const AttentionTiles& attention_tiles_amxbf16();  // x86-64

}  // namespace nibble::ops::cpu
