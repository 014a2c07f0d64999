#pragma once

#include <cstdint>

#include "formats/block_sparse.h"
#include "ops/cpu/sparse/rows/row_streams.h"

namespace nibble::ops::cpu {

/// How rows of a weight lie in their streams.
class RowLayout {
 public:
  RowLayout(const formats::PackedWeight& weight, int held_bits)
      : weight_(weight),
        held_bits_(held_bits),
        group_(static_cast<int>(weight.scheme.scale.group)),
        piece_(sparse_piece_of(group_)),
        has_book_(formats::has_book(weight.scheme)) {}

  int piece() const { return piece_; }
  int shared() const { return group_ / piece_; }
  std::int64_t windows() const {
    const std::int64_t pieces = weight_.k / piece_;
    return (pieces + kSparseWindow - 1) / kSparseWindow;
  }
  /// Where parts of a stream stand.
  std::int64_t masks() const {
    return has_book_ ? kTableBytes + static_cast<std::int64_t>(sizeof(float)) : 0;
  }
  std::int64_t first_window() const { return masks() + 2 * windows(); }
  /// Of a window that keeps so many groups.
  std::int64_t zeros(std::int64_t groups) const { return 2 * groups; }
  std::int64_t codes(std::int64_t groups) const {
    return zeros(groups) + (has_book_ ? 0 : held_bits_ == 8 ? groups : (groups + 1) / 2);
  }
  std::int64_t bytes(std::int64_t groups) const {
    return codes(groups) + groups * group_ * held_bits_ / 8;
  }

  /// Calls visit(window, begin, end) for each window of a row that keeps stored groups [begin,
  /// end).
  template <class Visit>
  void for_windows(std::int64_t row, const Visit& visit) const {
    const auto [begin, end] = formats::stored_groups_of(weight_, row);
    const std::int64_t groups = kSparseWindow / shared();  // of a window
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t window = formats::stored_group(weight_, at) / groups;
      std::int64_t last = at + 1;
      while (last < end && formats::stored_group(weight_, last) / groups == window) {
        ++last;
      }
      visit(window, at, last);
      at = last;
    }
  }

  /// Of a row's stream, in kStreamBorder bytes.
  std::int32_t length(std::int64_t row) const {
    std::int64_t sum = first_window();
    for_windows(row, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
      sum += bytes(end - begin);
    });
    return static_cast<std::int32_t>((sum + kStreamBorder - 1) / kStreamBorder);
  }

 private:
  const formats::PackedWeight& weight_;
  int held_bits_;
  int group_;
  int piece_;
  bool has_book_;
};

}  // namespace nibble::ops::cpu
