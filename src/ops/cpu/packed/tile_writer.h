#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/float16.h"
#include "formats/packed_weight.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/int8_table.h"

namespace nibble::ops::cpu {

/// What the codes of a row stand for. Empty for integers.
struct WeightTables {
  std::vector<Int8Table> rows;  // one for each row, or one for the matrix
  int zero = 0;
  int largest = 0;

  const Int8Table& of(std::int64_t row) const {
    return rows[rows.size() == 1 ? 0 : static_cast<std::size_t>(row)];
  }
};

WeightTables weight_tables(const formats::PackedWeight& weight);

/// Writes tiles of a weight without a tail into memory that is zero before. One for each worker.
class TileWriter {
 public:
  /// `group`: inputs of a group of the layout. `tiles`: memory of all tiles. All must stay alive.
  TileWriter(const formats::PackedWeight& weight, const WeightTables& tables,
             const TiledWeight& tiled, std::int64_t group, std::byte* tiles);

  void write(std::int64_t tile);

 private:
  std::size_t weight_group(std::int64_t group) const {
    return static_cast<std::size_t>(group * group_ / weight_group_);
  }
  bool has_plain_scales() const;
  void write_row(std::int64_t row, std::uint8_t* tile, std::int64_t lane);
  void write_unit(std::int64_t row, std::uint8_t* tile, std::int64_t lane);
  void write_scales(std::int64_t row, std::uint8_t* tile, std::int64_t lane) const;
  void write_multiples(std::int64_t row, std::uint8_t* tile, std::int64_t lane) const;
  void write_zeros(std::int64_t row, std::uint8_t* tile, std::int64_t lane);
  float take_out_exponent();
  float take_out_global(std::int64_t row);
  void pad_codes(std::int64_t lane);
  void write_two_of_four(std::int64_t row, std::uint8_t* lines, std::int64_t lane);

  const formats::PackedWeight& weight_;
  const WeightTables& tables_;
  const TiledWeight& tiled_;
  std::int64_t group_;
  std::int64_t weight_group_;
  std::int64_t stride_;  // inputs of a group with its padding
  bool stored_;  // the stored codes are read as they lie: they need no padding, or know their place
  std::uint8_t* memory_;
  std::vector<std::uint8_t> codes_;   // of a row, one byte each
  std::vector<std::uint8_t> padded_;  // [16, groups * stride_], unless stored_
  std::vector<float> scales_;         // of a row, as the weight groups them
  std::vector<std::uint8_t> zeros_;
};

}  // namespace nibble::ops::cpu
