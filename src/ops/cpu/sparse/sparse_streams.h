#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/threads.h"
#include "formats/packed_weight.h"
#include "ops/cpu/packed/page_buffer.h"
#include "ops/cpu/sparse/sparse_kernel.h"

namespace nibble::ops::cpu {

/// A block-sparse weight in the streams of rows/row_streams.h, or in the units of
/// tiles/tile_units.h where tiles of rows keep the same groups.
class SparseStreams {
 public:
  /// Throws kFailed for other weights.
  static SparseStreams pack(const formats::PackedWeight& weight, core::ThreadPool& pool);

  std::int64_t n() const { return rows_ * (std::ssize(first_) - 1); }
  std::int64_t k() const { return k_; }
  /// Of all rows.
  std::int64_t bytes() const {
    return memory_.bytes() + 4 * std::ssize(row_units_) + 2 * std::ssize(groups_);
  }
  SparseWeight view() const;
  /// SparseWeight::first.
  std::span<const std::int32_t> first() const { return first_; }

 private:
  void pack_rows(const formats::PackedWeight& weight, core::ThreadPool& pool);
  void pack_tiles(const formats::PackedWeight& weight, core::ThreadPool& pool);

  std::int64_t k_ = 0;
  int rows_ = 1;
  int group_ = 0;
  int held_bits_ = 4;
  int scale_bytes_ = 2;
  bool has_books_ = false;
  std::vector<float> row_units_;
  std::vector<std::int32_t> first_;
  std::vector<std::uint16_t> groups_;  // of each unit of tiles
  PageBuffer memory_;
};

}  // namespace nibble::ops::cpu
