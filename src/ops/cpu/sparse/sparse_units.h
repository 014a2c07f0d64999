#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/threads.h"
#include "formats/packed_weight.h"
#include "ops/cpu/packed/page_buffer.h"
#include "ops/cpu/sparse/sparse_rows.h"

namespace nibble::ops::cpu {

/// Bits that codes of `bits` bits take in units.
constexpr int held_bits_of(int bits) {
  return bits <= 4 ? 4 : 8;
}

/// The layout of a group size, 8, 16, 32 or 64, at run time.
SparseUnitLayout sparse_unit_layout(std::int64_t group, int held_bits, int scale_bytes);

/// A block-sparse weight in the units of sparse_rows.h, or of tile_units.h where tiles of rows keep
/// the same groups.
class SparseUnits {
 public:
  /// Throws kFailed for other weights.
  static SparseUnits pack(const formats::PackedWeight& weight, core::ThreadPool& pool);

  std::int64_t n() const { return rows_ * (std::ssize(first_unit_) - 1); }
  std::int64_t k() const { return k_; }
  /// Of all rows.
  std::int64_t bytes() const {
    return memory_.bytes() + 4 * std::ssize(row_units_) + 2 * std::ssize(groups_);
  }
  SparseWeight view() const;
  /// [n / rows + 1], of each row, or tile, counted in units.
  std::span<const std::int32_t> first_unit() const { return first_unit_; }

 private:
  void pack_rows(const formats::PackedWeight& weight, core::ThreadPool& pool);
  void pack_tiles(const formats::PackedWeight& weight, core::ThreadPool& pool);

  std::int64_t k_ = 0;
  int rows_ = 1;
  int group_ = 0;
  int held_bits_ = 4;
  int scale_bytes_ = 2;
  std::vector<float> row_units_;
  std::vector<std::int32_t> first_unit_;
  std::vector<std::uint16_t> groups_;  // of each unit of tiles
  PageBuffer memory_;
};

}  // namespace nibble::ops::cpu
