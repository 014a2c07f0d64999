#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/coding/coded_weight.h"
#include "formats/format.h"

namespace nibble::tune {

/// Throws kUsage, saying why, for schemes whose groups cannot be trained: those other than integers
/// with an fp16 scale for each group (or row) and an integer zero point or none, and block-sparse
/// rows of floats.
void require_trainable(const formats::Scheme& scheme);

/// Whether a scheme has scales to be trained: floats have none.
inline bool has_trained_scales(const formats::Scheme& scheme) {
  return formats::has_codes(scheme);
}

/// The codes [n, k] and group parameters [n, groups] of a layer, as GroupScales takes them. Floats
/// have no codes, and scale 1 for a group that is stored.
compress::CodedWeight coded_of(const formats::PackedWeight& weight);

/// The scales and zero points of a layer's groups as trained numbers. A scale is trained as the
/// logarithm of its magnitude: steps are shares of it, and its sign stays. What is computed with is
/// what the scheme stores: the nearest fp16 scale and the nearest integer zero; their gradients
/// pass straight through (arXiv 1308.3432). Of floats it only says which groups are stored.
class GroupScales {
 public:
  /// `parameters` [n, groups] as stored; a scale of 0 means that the group is pruned.
  GroupScales(const formats::Scheme& scheme, std::int64_t n, std::int64_t k,
              std::span<const formats::GroupParameters> parameters);

  const formats::Scheme& scheme() const { return scheme_; }
  /// Not of floats.
  const formats::Format& format() const { return *format_; }
  std::int64_t n() const { return n_; }
  std::int64_t k() const { return k_; }
  std::int64_t groups() const { return groups_; }  // of a row
  std::int64_t count() const { return n_ * groups_; }
  compress::GroupRange range(std::int64_t group) const {
    return compress::group_range(scheme_, k_, group);
  }

  /// As stored at first, [n, groups], and the signs of their scales; 0: the group is pruned.
  std::span<const formats::GroupParameters> start() const { return start_; }
  std::span<const std::int8_t> signs() const { return signs_; }

  /// Where training starts: [n, groups].
  std::vector<float> logarithms() const;
  std::vector<float> zeros() const;  // empty where the scheme has no zeros

  /// Whether group `at` of all [n, groups] is stored.
  bool keeps(std::int64_t at) const { return signs_[static_cast<std::size_t>(at)] != 0; }

  /// What the scheme stores of trained numbers; scale 0 for a pruned group. `zeros` is empty where
  /// the scheme has none.
  formats::GroupParameters stored(std::int64_t at, std::span<const float> logarithms,
                                  std::span<const float> zeros) const;

 private:
  formats::Scheme scheme_;
  std::unique_ptr<const formats::Format> format_;  // null: floats
  std::int64_t n_;
  std::int64_t k_;
  std::int64_t groups_;
  int last_code_;
  std::vector<formats::GroupParameters> start_;
  std::vector<std::int8_t> signs_;
};

}  // namespace nibble::tune
