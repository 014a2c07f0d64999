#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/dtype.h"
#include "formats/activation.h"
#include "formats/code_type.h"

namespace nibble::formats {

struct Code {
  const CodeType* type = &kDenseCodes;    // one of code_types()
  int bits = 0;                           // 0: dense
  Book book = Book::kNone;                // kBookCodes only
  core::DType dense = core::DType::kF32;  // kDenseCodes only: F32, F16 or BF16
  int used_bits = 0;                      // of `bits`, where codes need fewer (5, 6); 0: all

  friend bool operator==(const Code&, const Code&) = default;
};

/// How the scale of a group of weights is stored.
enum class ScaleType {
  kNone,       // dense weights
  kF16,        // a float16
  kUnits,      // 7 bits: a sign and a multiple of a unit of the row (row_unit.h)
  kE8m0,       // a power of two (OCP microscaling)
  kE4m3,       // E4M3 times one float32 of the whole matrix (NVFP4)
  kMultiples,  // 8 bits: a signed multiple of a float16 of kSuperGroup inputs (GGUF's k-quants)
};

/// Inputs of a row that share the float16 of ScaleType::kMultiples.
inline constexpr std::int64_t kSuperGroup = 256;

/// As Scale::rows: the whole matrix.
inline constexpr std::int64_t kAllRows = 0;

/// Group and rows together are the granularity: the block of the matrix that shares a scale.
struct Scale {
  ScaleType type = ScaleType::kNone;
  std::int64_t group = 0;  // inputs that share a scale; 0: a whole row. Of block-sparse floats,
                           // which have none: inputs that are stored together
  std::int64_t rows = 1;   // rows that share one; kAllRows, and then the group is 0

  friend bool operator==(const Scale&, const Scale&) = default;
};

/// As Inputs::hadamard: one matrix over all inputs.
inline constexpr std::int64_t kWholeRow = -1;

/// What happens to the inputs of a layer before its product.
struct Inputs {
  std::int64_t hadamard = 0;  // inputs that an online Hadamard mixes; 0: none; kWholeRow
  std::int64_t tail = 0;      // outlying inputs that stand last and are computed in INT8
  bool ordered = false;       // stand in a stored order, without a tail, which implies one

  friend bool operator==(const Inputs&, const Inputs&) = default;
};

/// Which weights of a matrix are stored at all; the others are 0.
enum class Sparsity {
  kNone,        // all of them
  kGroups,      // the groups of Scale::group, each or not: block-sparse rows (block_sparse.h)
  kTileGroups,  // the same, where kPatternTile rows keep the same groups
  kTwoOfFour,   // two of each four inputs of a row (two_of_four.h)
};

/// Inputs of which kTwoOfFour stores two weights.
inline constexpr std::int64_t kFour = 4;

/// Rows that a vector of a CPU, or an operand of tensor cores, holds side by side.
inline constexpr std::int64_t kPatternTile = 16;

/// How the numbers of one linear layer are stored and computed, one member for each axis on which
/// formats differ. A plain value that prints to and parses from a short string:
///
///   f32  f16  bf16                       dense
///   int4-asym-g128  int3-sym-g32  int8-sym-row      integers; g<N> inputs share a scale, or a row
///                                        (others: granularity.cpp)
///   int8-sym-row-a8                      with per-token INT8 activations
///   int8-sym-row-a8o                     and outlying activations in float
///   int8-sym-row-a8s                     and INT8 activations by one scale that is stored
///   int4-sym-g128-a4-asym                INT4 activations with a zero point for each token
///   int4-sym-g128-a4g128c0.9             INT4, 128 inputs share a scale, ranges clipped to 0.9
///   int4-asym-g128-h128                  a Hadamard matrix mixes each 128 inputs first
///   int4-sym-g128-a4-hrow                one mixes all inputs of a row
///   int4-sym-g128-a4g128-h128-tail128    the 128 worst inputs apart, in INT8
///   int4-asym-g128-order                 inputs stand in a stored order (GPTQ's act-order)
///   lut4-nf4-g64  lut4-fp4-g64  lut4-af4-g64  lut4-iq4-g32  lut4-row-g128  lut4-matrix-g128
///   lut3-row-g128  lut2-matrix-g64       learned books of 8 and of 4 values
///   lut4-matrix-g32-s7  int4-asym-g32-s7  scales of 7 bits, multiples of a unit of the row
///   int4-min-g32  int4-min-g32-s8        code 0 is a real number, stored for each group
///   int3-sym-g16-s8  lut4-iq4-g32-s8     scales of 8 bits, multiples of a float16 of 256 inputs
///   int5-sym-g32  int6-sym-g16-s8        codes of 5 and 6 bits, held in 8 (GGUF's blocks)
///   int4-asym-g16-bsr  int4-asym-g16-bsr-a8  block-sparse rows: only groups that are not 0 are
///                                        stored (GQSA, arXiv 2412.17560)
///   int4-asym-g16-bsr-t16                the same groups of each 16 rows
///   int4-asym-g16-s7-bsr                 with scales of 7 bits
///   lut4-row-g16-bsr  lut4-nf4-g16-bsr   block-sparse rows of entries of a book
///   f16-g16-bsr                          block-sparse rows of float16
///   int4-sym-g128-2of4  int8-sym-row-2of4-a8  f16-2of4  two weights of each four inputs are
///                                        stored (NVIDIA's 2:4 sparsity, arXiv 2104.08378)
///   mxfp4                                E2M1 codes, E8M0 scales, groups of 32
///   nvfp4                                E2M1 codes, E4M3 scales, groups of 16
///
/// The types of codes in folders of their own say what their schemes are called.
///
/// With a tail (Atom, arXiv 2310.19102) inputs are put in a stored order in which the outlying ones
/// come last. Those meet INT8 weights (int8-sym-row) in INT8, a scale for each token; the others
/// ("the head") are what the rest of the scheme is about: its groups, its Hadamard.
///
/// With a Hadamard the layer computes y = (x H) (W H)^T = x W^T: H is orthonormal and
/// block-diagonal (hadamard.h; the last matrix of a row is smaller where the size does not divide
/// it), x H is what is quantized, and W H is what is stored (QuaRot, arXiv 2404.00456).
struct Scheme {
  Code code = {};
  Scale scale = {};
  Zero zero = Zero::kNone;
  Inputs inputs = {};
  Activation activation = {};
  Sparsity sparsity = Sparsity::kNone;

  friend bool operator==(const Scheme&, const Scheme&) = default;
};

/// Whether weights are stored as codes, not as floats.
inline bool has_codes(const Scheme& scheme) {
  return scheme.code.type != &kDenseCodes;
}
/// Whether the weight is a matrix of floats, PackedWeight::dense.
inline bool is_dense(const Scheme& scheme) {
  return !has_codes(scheme) && scheme.sparsity == Sparsity::kNone;
}
inline bool is_integer(const Scheme& scheme) {
  return scheme.code.type == &kIntegerCodes;
}
inline bool has_book(const Scheme& scheme) {
  return scheme.code.type == &kBookCodes;
}
/// Whether the code book is learned: a part of the weight.
inline bool has_learned_book(const Scheme& scheme) {
  return scheme.code.book == Book::kPerRow || scheme.code.book == Book::kPerMatrix;
}
/// Bits that codes need: they are 0 to 2^value_bits - 1, those of symmetric integers as many around
/// 2^(code.bits - 1).
inline int value_bits(const Scheme& scheme) {
  return scheme.code.used_bits != 0 ? scheme.code.used_bits : scheme.code.bits;
}
/// Values of a code book.
inline std::int64_t book_size(const Scheme& scheme) {
  return std::int64_t{1} << scheme.code.bits;
}
inline bool has_zeros(const Scheme& scheme) {
  return scheme.zero == Zero::kInteger;
}
/// Whether weights are scale * code + minimum.
inline bool has_minima(const Scheme& scheme) {
  return scheme.zero == Zero::kReal;
}
/// Whether the weight is stored as block-sparse rows.
inline bool is_block_sparse(const Scheme& scheme) {
  return scheme.sparsity == Sparsity::kGroups || scheme.sparsity == Sparsity::kTileGroups;
}
/// Whether two weights of each four inputs are stored.
inline bool keeps_two_of_four(const Scheme& scheme) {
  return scheme.sparsity == Sparsity::kTwoOfFour;
}
/// Whether tiles of several rows keep the same groups.
inline bool has_tile_pattern(const Scheme& scheme) {
  return scheme.sparsity == Sparsity::kTileGroups;
}
/// Rows that keep the same groups.
inline std::int64_t pattern_rows(const Scheme& scheme) {
  return has_tile_pattern(scheme) ? kPatternTile : 1;
}
/// Whether scales (and minima) are multiples of a float16 that kSuperGroup inputs share.
inline bool has_supers(const Scheme& scheme) {
  return scheme.scale.type == ScaleType::kMultiples;
}
/// Those of a row of k inputs.
inline std::int64_t supers_per_row(std::int64_t k) {
  return (k + kSuperGroup - 1) / kSuperGroup;
}

std::string to_string(const Scheme& scheme);

/// Throws kInvalidModel for a string that is not a scheme, or a combination that does not exist.
Scheme parse_scheme(std::string_view text);

/// The part of scales that says what shares one, as a word: "tensor", "row", "g128". Parsed they
/// are fp16; nullopt for other words.
std::string granularity_word(const Scale& scale);
std::optional<Scale> parse_granularity(std::string_view word);

/// What does not go with what shares a scale, as problem_of().
std::string problem_of_granularity(const Scheme& scheme);

/// What is contradictory about a scheme (bits = 5, group < 0, lut4 without a book), as the end of a
/// message; empty when nothing is.
std::string problem_of(const Scheme& scheme);

/// Throws kInvalidModel when there is such a problem.
void validate(const Scheme& scheme);

/// Inputs before the tail.
std::int64_t head_inputs(const Scheme& scheme, std::int64_t k);

/// How a tail is stored and computed: int8-sym-row-a8.
Scheme tail_scheme();

/// Groups in the head of a row of k inputs; the last one may be short. Each has a scale, which rows
/// may share.
std::int64_t groups_per_row(const Scheme& scheme, std::int64_t k);

/// Whether the order of inputs is a part of the weight.
inline bool stores_order(const Scheme& scheme) {
  return scheme.inputs.ordered || scheme.inputs.tail != 0;
}

/// Weights that a row of k inputs stores for the head; not of block-sparse rows.
std::int64_t stored_weights_per_row(const Scheme& scheme, std::int64_t k);

/// How many of n rows share their scales: rows [i * rows, (i + 1) * rows) for each i.
std::int64_t rows_per_scale(const Scheme& scheme, std::int64_t n);

/// The scales of a weight of n rows: [rows, groups].
struct ScaleShape {
  std::int64_t rows = 0;
  std::int64_t groups = 0;
};
ScaleShape scale_shape(const Scheme& scheme, std::int64_t n, std::int64_t k);

/// Inputs that each Hadamard matrix mixes in rows of k inputs, the last one aside; 0: none.
std::int64_t hadamard_size(const Scheme& scheme, std::int64_t k);

/// Throws kInvalidModel when rows of k inputs cannot be stored so: the groups of mxfp4, nvfp4 and
/// of schemes with minima must divide them, and so must those of block-sparse rows, four inputs of
/// which two weights are stored, and 256 inputs whose scales share a float16; rows that keep the
/// same groups must divide the outputs; a tail must leave something, and Hadamards must exist, of a
/// smaller size at the end of a row too.
void require_shape(const Scheme& scheme, std::int64_t n, std::int64_t k);

/// Inputs in a full group: scheme.scale.group, or the whole head.
std::int64_t group_size(const Scheme& scheme, std::int64_t k);

}  // namespace nibble::formats

template <>
struct fmt::formatter<nibble::formats::Scheme> : nibble::core::FormattedByToString {};
