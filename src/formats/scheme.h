#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/dtype.h"
#include "formats/activation.h"

namespace nibble::formats {

/// The families of weight codes. Every method of compress/ writes one of these.
enum class FormatKind {
  kDense,  // F32, F16 or BF16 values, no codes
  kInt,    // integers of 2, 3, 4 or 8 bits: w = scale * (code - zero)
  kLut4,   // code book of 16 values, learned ones also of 8 or 4: w = scale * book[code]
  kMx,     // OCP microscaling: E2M1 codes, one power-of-two scale for 32 weights
  kNv,     // NVFP4: E2M1 codes, E4M3 scales for 16 weights, one float32 scale for the matrix
};

/// Which code book a kLut4 weight uses.
enum class Book {
  kNone,
  kNf4,        // NormalFloat4 (QLoRA, arXiv 2305.14314, appendix E)
  kFp4,        // E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives
  kAf4,        // AbnormalFloat4 with zero as a code, by group size (arXiv 2306.06965, own solution)
  kPerRow,     // 2^bits learned values for each output row (any4, arXiv 2507.04610)
  kPerMatrix,  // 2^bits learned values for the whole matrix
};

/// As Scheme::hadamard: one matrix over all inputs.
inline constexpr std::int64_t kWholeRow = -1;

/// How the numbers of one linear layer are stored and computed. A plain value that prints to and
/// parses from a short string:
///
///   f32  f16  bf16                       dense
///   int4-asym-g128  int3-sym-g32  int8-sym-row      integers; g<N> inputs share a scale, or a row
///   int8-sym-row-a8                      the same with per-token INT8 activations
///   int8-sym-row-a8o                     and outlying activations in float
///   int4-sym-g128-a4-asym                INT4 activations with a zero point for each token
///   int4-sym-g128-a4g128c0.9             INT4, 128 inputs share a scale, ranges clipped to 0.9
///   int4-asym-g128-h128                  a Hadamard matrix mixes each 128 inputs first
///   int4-sym-g128-a4-hrow                one mixes all inputs of a row
///   int4-sym-g128-a4g128-h128-tail128    the 128 worst inputs apart, in INT8
///   lut4-nf4-g64  lut4-fp4-g64  lut4-af4-g64  lut4-row-g128  lut4-matrix-g128
///   lut3-row-g128  lut2-matrix-g64       learned books of 8 and of 4 values
///   lut4-matrix-g32-s7  int4-asym-g32-s7  scales of 7 bits, multiples of a unit of the row
///   mxfp4                                always groups of 32
///   nvfp4                                always groups of 16
///
/// With a tail (Atom, arXiv 2310.19102) inputs are put in a stored order in which the outlying ones
/// come last. Those meet INT8 weights (int8-sym-row) in INT8, a scale for each token; the others
/// ("the head") are what the rest of the scheme is about: its groups, its Hadamard.
///
/// With a Hadamard the layer computes y = (x H) (W H)^T = x W^T: H is orthonormal and
/// block-diagonal (hadamard.h; the last matrix of a row is smaller where the size does not divide
/// it), x H is what is quantized, and W H is what is stored (QuaRot, arXiv 2404.00456).
struct Scheme {
  FormatKind kind = FormatKind::kDense;
  core::DType dense = core::DType::kF32;  // kDense only
  int bits = 0;                           // bits per code; 0 for kDense
  bool symmetric = true;                  // kInt: zero is 2^(bits-1) for every group
  std::int64_t group = 0;                 // inputs that share a scale; 0: the whole row
  Book book = Book::kNone;                // kLut4 only
  int scale_bits = 16;                    // kInt and kLut4: 16 (F16), or 7 (row_unit.h)
  Activation activation;
  std::int64_t hadamard = 0;  // inputs that an online Hadamard mixes; 0: none; kWholeRow
  std::int64_t tail = 0;      // outlying inputs that stand last and are computed in INT8

  friend bool operator==(const Scheme&, const Scheme&) = default;
};

std::string to_string(const Scheme& scheme);

/// Throws kInvalidModel for a string that is not a scheme, or a combination that does not exist.
Scheme parse_scheme(std::string_view text);

/// Throws kInvalidModel when the scheme is contradictory (bits = 5, group < 0, lut4 without a
/// book).
void validate(const Scheme& scheme);

/// Inputs before the tail.
std::int64_t head_inputs(const Scheme& scheme, std::int64_t k);

/// How a tail is stored and computed: int8-sym-row-a8.
Scheme tail_scheme();

/// Groups in the head of a row of k inputs; the last one may be short.
std::int64_t groups_per_row(const Scheme& scheme, std::int64_t k);

/// Inputs that each Hadamard matrix mixes in rows of k inputs, the last one aside; 0: none.
std::int64_t hadamard_size(const Scheme& scheme, std::int64_t k);

/// Throws kInvalidModel when rows of k inputs cannot be stored so: mxfp4 and
/// nvfp4 must divide them, a tail
/// must leave something, and Hadamards must exist, of a smaller size at the end of a row too.
void require_shape(const Scheme& scheme, std::int64_t n, std::int64_t k);

/// Inputs in a full group: scheme.group, or the whole head.
std::int64_t group_size(const Scheme& scheme, std::int64_t k);

}  // namespace nibble::formats

template <>
struct fmt::formatter<nibble::formats::Scheme> : nibble::core::FormattedByToString {};
