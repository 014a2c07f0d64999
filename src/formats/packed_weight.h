#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "formats/scheme.h"

namespace nibble::formats {

/// The logical compressed weight of one linear layer, y[m, n] = sum over k of x[m, k] * w(n, k), as
/// it is stored on disk. Kernels make their own layouts from it; decode_row is the only definition
/// of what the bits mean. Where the scheme has a Hadamard, x is the input after it, and w is W H.
///
///   part         dtype, shape                        which schemes
///   dense        F32/F16/BF16 [n, k]                 dense ones, and then the only part
///   codes        U8 [n, ceil(k * bits / 8)]          all others: LSB first along k, so with 4 bits
///                                                    byte b of a row holds inputs 2b (low nibble)
///                                                    and 2b + 1
///   scales       F16 scale_shape()                   ScaleType::kF16: [n, groups], or [1, 1]
///                                                    where all rows share one
///                U8 [n, groups]                      kE8m0, kE4m3
///                U8 [n, ceil(groups * 7 / 8)]        kUnits: LSB first, in units of the row
///                I8 [n, groups]                      kMultiples: times the super's float16
///   supers       F16 [n, ceil(k / 256)]              kMultiples
///   units        U8 [n, 1]                           kUnits (row_unit.h)
///   global       F32 [1, 1]                          kE4m3: a scale is E4M3 times it
///   zeros        U8 [n, ceil(groups * bits / 8)]     Zero::kInteger: LSB first
///   minima       as scales                           Zero::kReal: F16, or I8 for kMultiples
///   min_supers   as supers                           Zero::kReal with kMultiples
///   book         F16 [n, 2^bits] or [1, 2^bits]      Book::kPerRow or kPerMatrix (F32 in files of
///                                                    earlier versions)
///
///   input_scale  F32 [1, 1]                          Activation::stored_scale
///
///   permutation  I32 [1, k]                          stores_order(): stored input i is input
///                                                    permutation[i] of the layer
///
/// stored_parts.h is this table as data. A weight with a tail is two weights beside each other,
/// head_of() and tail_of(). Then codes, scales and zeros are those of the head, and there are
///
///   tail_codes   U8 [n, tail]    int8-sym: w = scale * (code - 128)
///   tail_scales  F16 [n, 1]
///
/// Block-sparse rows (is_block_sparse()) have in place of the parts above, for `kept` groups
/// that stand tile after tile of t = pattern_rows() rows and ascend within a tile (block_sparse.h):
///
///   row_index    I32 [1, n / t + 1]                  groups kept before each tile, and of all
///   groups       U8 [kept, 1 or 2]                   which group of its rows each is,
///   little-endian;
///                                                    1 byte where rows have at most 256 groups
///   codes        U8 [kept * t, group * bits / 8]     LSB first along k; t rows of a group, then
///                                                    those of the next
///   scales       F16 [1, kept * t]
///   zeros        U8 [1, ceil(kept * t * bits / 8)]   Zero::kInteger: LSB first
///   book         as above                            Book::kPerRow or kPerMatrix
///   values       F16 [kept, group]                   floats, in place of codes, scales and zeros
///
/// Where two of each four inputs are stored (keeps_two_of_four(), two_of_four.h) there are, beside
/// the other parts of the scheme,
///
///   codes        U8 [n, ceil(k / 2 * bits / 8)]      those of the stored weights, LSB first
///   values       F16/BF16 [n, k / 2]                 dense ones: the stored weights, for `dense`
///   indices      U8 [n, ceil(k / 8)]                 for each four inputs which two are stored: 2
///                                                    bits each, the first of them lowest
///
/// All functions below show such a weight with all of its groups: those that are not stored have
/// scale 0, and codes that equal their zero, or are 0 where there is a book. So have weights that
/// are not stored of four inputs.
struct PackedWeight {
  Scheme scheme;
  std::int64_t n = 0;  // outputs
  std::int64_t k = 0;  // inputs
  core::Tensor dense;
  core::Tensor codes;
  core::Tensor scales;
  core::Tensor supers;
  core::Tensor units;
  core::Tensor global;
  core::Tensor zeros;
  core::Tensor minima;
  core::Tensor min_supers;
  core::Tensor book;
  core::Tensor input_scale;
  core::Tensor permutation;
  core::Tensor tail_codes;
  core::Tensor tail_scales;
  core::Tensor row_index;
  core::Tensor groups;
  core::Tensor values;
  core::Tensor indices;
};

/// The two weights that a weight with a tail consists of, over the same bytes and without the
/// permutation: k - tail inputs, and the tail's. head_of() of any other weight is that weight,
/// also without its order.
PackedWeight head_of(const PackedWeight& weight);
PackedWeight tail_of(const PackedWeight& weight);

/// The named parts of a weight as they stand in a checkpoint: "<layer>.<part>".
struct Part {
  std::string_view name;  // "weight" (dense), "codes", "scales", "zeros", "book", ...
  core::Tensor tensor;
};
std::vector<Part> parts(const PackedWeight& weight);

/// The parts under which a reader finds them, whether they are there or not.
struct PartSlot {
  std::string_view name;
  core::Tensor PackedWeight::*tensor;
};
std::span<const PartSlot> part_slots();

/// Checks shapes and dtypes of all parts against the scheme, and that scales and books are finite.
/// Throws kInvalidModel naming `name`, the part and what is wrong. Call on everything that was
/// read.
void validate(const PackedWeight& weight, std::string_view name);

/// Values of output row `row`: out[k], in the stored order of inputs.
void decode_row(const PackedWeight& weight, std::int64_t row, std::span<float> out);

/// All codes of a row, one byte each: out[k]. Not for dense weights. This and all below: not for
/// weights with a tail, but for their head_of() and tail_of().
void unpack_codes(const PackedWeight& weight, std::int64_t row, std::span<std::uint8_t> out);

/// The values of a row's codes before their scales, in units of them: out[k].
void decode_unscaled(const PackedWeight& weight, std::int64_t row, std::span<float> out);

/// Zero points of a row, one byte each: out[groups]. 2^(bits-1) where the scheme is symmetric, 0
/// where it has minima.
void unpack_zeros(const PackedWeight& weight, std::int64_t row, std::span<std::uint8_t> out);

/// Scales of a row as float32: out[groups] (E8M0 decoded, E4M3 times the
/// global scale).
void unpack_scales(const PackedWeight& weight, std::int64_t row, std::span<float> out);

/// Minima of a row as float32: out[groups]. 0 where the scheme has none.
void unpack_minima(const PackedWeight& weight, std::int64_t row, std::span<float> out);

/// The values of a code book, at most 16.
class BookValues {
 public:
  BookValues() = default;
  explicit BookValues(std::span<const float> values);
  explicit BookValues(std::span<const core::Fp16> values);

  std::size_t size() const { return size_; }
  float operator[](std::size_t code) const { return values_[code]; }
  const float* begin() const { return values_.data(); }
  const float* end() const { return values_.data() + size_; }

  friend bool operator==(const BookValues&, const BookValues&) = default;

 private:
  std::array<float, 16> values_{};
  std::size_t size_ = 0;
};

/// The 2^bits values that codes of `row` select, before the scale. Only where codes are of a book.
BookValues book_of(const PackedWeight& weight, std::int64_t row);

/// The scale of the layer's inputs, x = scale * code. Only where it is stored.
float input_scale_of(const PackedWeight& weight);

/// The scales of inputs that can be stored.
inline constexpr float kMinInputScale = 0x1p-100f;
inline constexpr float kMaxInputScale = 0x1p100f;

/// `weight` with another scale of its inputs. Throws kFailed where none is stored, and for one that
/// is not in [kMinInputScale, kMaxInputScale].
PackedWeight with_input_scale(PackedWeight weight, float scale);

/// All stored bytes, and 8 * bytes / (n * k).
std::int64_t stored_bytes(const PackedWeight& weight);
double bits_per_weight(const PackedWeight& weight);

/// A dense weight that shares the tensor's bytes. Throws unless the tensor is a floating [n, k].
PackedWeight dense_weight(core::Tensor tensor);

}  // namespace nibble::formats
