#include "ops/cpu/sparse/sparse_streams.h"

#include "core/error.h"
#include "formats/block_sparse.h"
#include "formats/row_unit.h"
#include "ops/cpu/sparse/held_codes.h"
#include "ops/cpu/sparse/rows/row_writer.h"
#include "ops/cpu/sparse/tiles/tile_unit_writer.h"

namespace nibble::ops::cpu {
namespace {

using formats::PackedWeight;

constexpr std::int64_t kRowsPerTask = 16;

}  // namespace

SparseStreams SparseStreams::pack(const PackedWeight& weight, core::ThreadPool& pool) {
  const formats::Scheme& scheme = weight.scheme;
  core::require(formats::is_block_sparse(scheme) && formats::has_codes(scheme),
                core::ErrorKind::kFailed, "{} has no streams of block-sparse rows", scheme);
  SparseStreams streams;
  streams.k_ = weight.k;
  streams.rows_ = static_cast<int>(formats::pattern_rows(scheme));
  streams.group_ = static_cast<int>(scheme.scale.group);
  streams.held_bits_ = held_bits_of(scheme.code.bits);
  streams.has_books_ = formats::has_book(scheme);
  if (formats::has_tile_pattern(scheme) && scheme.scale.type == formats::ScaleType::kUnits) {
    streams.scale_bytes_ = 1;
    for (const std::uint8_t unit : weight.units.data<std::uint8_t>()) {
      streams.row_units_.push_back(formats::unit_value(unit));
    }
  }
  if (formats::has_tile_pattern(scheme)) {
    streams.pack_tiles(weight, pool);
  } else {
    streams.pack_rows(weight, pool);
  }
  return streams;
}

void SparseStreams::pack_rows(const PackedWeight& weight, core::ThreadPool& pool) {
  const RowWriter writer(weight, held_bits_);
  first_.push_back(0);
  for (std::int64_t row = 0; row < weight.n; ++row) {
    first_.push_back(first_.back() + writer.length(row));
  }
  memory_ = PageBuffer(std::int64_t{first_.back()} * kStreamBorder + kReadBehind);
  auto* const memory = reinterpret_cast<std::uint8_t*>(memory_.data());
  pool.parallel_for(weight.n, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      writer.write(row,
                   memory + std::int64_t{first_[static_cast<std::size_t>(row)]} * kStreamBorder);
    }
  });
}

void SparseStreams::pack_tiles(const PackedWeight& weight, core::ThreadPool& pool) {
  const TileUnitLayout layout = tile_unit_layout_of(group_, held_bits_, scale_bytes_);
  const auto ends = weight.row_index.data<std::int32_t>();
  first_.assign(ends.begin(), ends.end());
  for (std::int64_t at = 0; at < formats::stored_group_count(weight); ++at) {
    groups_.push_back(static_cast<std::uint16_t>(formats::stored_group(weight, at)));
  }
  memory_ = PageBuffer(std::int64_t{first_.back()} * layout.bytes);
  const TileUnitWriter writer(weight, layout, held_bits_);
  auto* const memory = reinterpret_cast<std::uint8_t*>(memory_.data());
  pool.parallel_for(n() / rows_, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const auto [first, last] = formats::stored_groups_of(weight, tile * rows_);
      for (std::int64_t at = first; at < last; ++at) {
        writer.write(at, tile, memory + at * layout.bytes);
      }
    }
  });
}

SparseWeight SparseStreams::view() const {
  return {reinterpret_cast<const std::uint8_t*>(memory_.data()),
          first_.data(),
          groups_.data(),
          row_units_.data(),
          k_,
          rows_,
          group_,
          held_bits_,
          scale_bytes_,
          has_books_};
}

}  // namespace nibble::ops::cpu
