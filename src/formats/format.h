#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/threads.h"
#include "formats/packed_weight.h"
#include "formats/scheme.h"

namespace nibble::formats {

struct Super;

/// Parameters of one group exactly as they will be stored: `scale` has already been rounded to the
/// stored scale type, so codes chosen with it decode without a further error.
struct GroupParameters {
  float scale = 1.0f;
  int zero = 0;          // integers only
  float minimum = 0.0f;  // schemes with minima only: what code 0 stands for, at most 0
};

/// Encoding of one weight format: how parameters are fitted to a group by round to nearest, and how
/// one weight becomes a code. Methods (GPTQ, AWQ, ...) are written over this interface, so each of
/// them works with each format.
class Format {
 public:
  virtual ~Format() = default;

  /// Round-to-nearest parameters of a group (docs/formats.md lists the conventions).
  /// Throws kInvalidModel when a weight is not finite.
  virtual GroupParameters fit(std::span<const float> group) const = 0;

  /// The code whose value is nearest to `weight`.
  virtual std::uint8_t encode(float weight, const GroupParameters& parameters) const = 0;

  /// encode() of each weight of a group; codes has as many elements.
  virtual void encode_group(std::span<const float> weights, const GroupParameters& parameters,
                            std::span<std::uint8_t> codes) const {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      codes[i] = encode(weights[i], parameters);
    }
  }

  /// The value of a code.
  virtual float decode(std::uint8_t code, const GroupParameters& parameters) const = 0;

  /// decode() of each code of a group; values has as many elements.
  virtual void decode_group(std::span<const std::uint8_t> codes, const GroupParameters& parameters,
                            std::span<float> values) const = 0;

  /// The scale nearest to `scale` that the stored type can hold, with its sign, never zero and
  /// never infinite. MXFP4 stores powers of two without a sign: nearest there is nearest in log2.
  virtual float stored_scale(double scale) const = 0;

  /// The minimum nearest to `minimum` that the stored type can hold; 0 in schemes without minima.
  virtual float stored_minimum(double /*minimum*/) const { return 0.0f; }

  const Scheme& scheme() const { return scheme_; }

 protected:
  explicit Format(const Scheme& scheme) : scheme_(scheme) {}

 private:
  Scheme scheme_;
};

/// The format of a scheme (not dense; learned books are given by `book`, book_size() values).
/// NVFP4 gets a global scale of 1; make_nv_format() takes another. Scales (and minima) of a scheme
/// with supers stay as they are fitted until round_to_supers() has seen all groups of a row. Throws
/// kUsage when the scheme has no round-to-nearest encoder.
std::unique_ptr<const Format> make_format(const Scheme& scheme, std::span<const float> book = {});

/// Collects codes and parameters of a matrix and packs them. A stored scale of inputs is 1 until
/// someone gives another (with_input_scale). Different rows may be set by different
/// threads at the same time. Block-sparse rows are given with all of their groups, of which those
/// that are 0 are left out, and weights of which two of four are stored with all of their codes.
/// Throws kFailed for an index out of range, a code or zero point with
/// too many bits, and a scale that the stored type cannot hold exactly; kInvalidModel when mxfp4
/// or nvfp4 does not divide k, and where more than two of four weights are not 0.
class PackedWeightBuilder {
 public:
  PackedWeightBuilder(const Scheme& scheme, std::int64_t n, std::int64_t k);

  /// Before the groups of the row; only where scales are multiples of a unit (row_unit.h).
  void set_unit(std::int64_t row, std::uint8_t unit);
  /// Before the groups of the row; only where scales are multiples of supers (super_blocks.h).
  void set_supers(std::int64_t row, std::span<const Super> supers);
  /// Before all groups; only for NVFP4 (nv_format.h).
  void set_global(float global);
  /// Of rows that share their scales those of the first are stored; the others must be the same.
  void set_group(std::int64_t row, std::int64_t group, const GroupParameters& parameters);
  void set_codes(std::int64_t row, std::span<const std::uint8_t> codes);  // k codes
  /// Where the scheme stores the order of inputs, which must then be given. A tail's group is the
  /// one behind the head's, its codes are the last.
  void set_permutation(std::span<const std::int32_t> permutation);  // k inputs
  void set_book(std::int64_t row,
                std::span<const float> values);  // book_size(); row 0 for kPerMatrix
  PackedWeight finish();

 private:
  void set_scale(std::int64_t row, std::int64_t group, float scale);
  void set_minimum(std::int64_t row, std::int64_t group, float minimum);
  void set_multiple(std::int64_t row, std::int64_t group, float value, core::Tensor& multiples,
                    const core::Tensor& supers);
  void set_zero(std::int64_t row, std::int64_t group, int zero);
  void set_tail_scale(std::int64_t row, const GroupParameters& parameters);
  void set_head_codes(std::int64_t row, std::span<const std::uint8_t> codes);

  void set_e4m3(std::int64_t row, std::int64_t group, float scale);
  void set_units(std::int64_t row, std::int64_t group, float scale);

  PackedWeight weight_;                  // with all groups
  Sparsity sparsity_ = Sparsity::kNone;  // what finish() makes of it
};

/// Round to nearest of a whole matrix, w [n, k] row-major; a dense scheme converts the values.
/// Throws kInvalidModel naming row and input of the first weight that is not finite (or too large
/// for F16), or the first four of which more than two are not 0 where two are stored; kUsage for a
/// learned book or a tail (which needs an order of the inputs).
PackedWeight round_to_nearest(std::span<const float> w, std::int64_t n, std::int64_t k,
                              const Scheme& scheme);
/// The same by some threads. `ranges`: [n, k] too, finite; the weights that parameters of groups
/// are fitted to (w, where it is empty).
PackedWeight round_to_nearest(std::span<const float> w, std::int64_t n, std::int64_t k,
                              const Scheme& scheme, core::ThreadPool& pool,
                              std::span<const float> ranges = {});

}  // namespace nibble::formats
