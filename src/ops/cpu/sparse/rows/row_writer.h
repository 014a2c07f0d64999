#pragma once

#include <cstdint>
#include <optional>

#include "formats/packed_weight.h"
#include "ops/cpu/sparse/rows/row_layout.h"
#include "ops/cpu/sparse/stored_entries.h"
#include "ops/int8_table.h"

namespace nibble::ops::cpu {

/// Writes streams of rows (row_streams.h).
class RowWriter {
 public:
  /// `weight` must stay where it is.
  RowWriter(const formats::PackedWeight& weight, int held_bits);

  /// Of a row's stream, in kStreamBorder bytes.
  std::int32_t length(std::int64_t row) const { return layout_.length(row); }
  /// `stream` is zero before.
  void write(std::int64_t row, std::uint8_t* stream) const;

 private:
  /// Stored group `at`, entry `entry` of `count` that a window keeps.
  void write_group(std::int64_t row, std::int64_t at, std::int64_t entry, std::int64_t count,
                   std::uint8_t* window) const;

  const formats::PackedWeight& weight_;
  StoredEntries entries_;
  RowLayout layout_;
  int held_bits_;
  std::optional<Int8Table> table_;  // of all rows; none: they have no book, or each its own
};

}  // namespace nibble::ops::cpu
