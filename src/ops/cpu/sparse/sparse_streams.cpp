#include "ops/cpu/sparse/sparse_streams.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/error.h"
#include "formats/block_sparse.h"
#include "formats/row_unit.h"
#include "ops/cpu/sparse/stored_entries.h"
#include "ops/cpu/sparse/tile_units.h"
#include "ops/int8_table.h"

namespace nibble::ops::cpu {
namespace {

static_assert(formats::kPatternTile == kSparseTile);

using formats::PackedWeight;

constexpr std::int64_t kRowsPerTask = 16;

/// How rows of a weight lie in their streams.
class RowLayout {
 public:
  RowLayout(const PackedWeight& weight, int held_bits)
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
  const PackedWeight& weight_;
  int held_bits_;
  int group_;
  int piece_;
  bool has_book_;
};

/// Sets a value that has byte `whole` of its own, or `half` (0 is the low one) of byte `shared`.
void set_held(std::uint8_t* to, int held_bits, std::int64_t whole, std::int64_t shared,
              std::int64_t half, int value) {
  if (held_bits == 8) {
    to[whole] = static_cast<std::uint8_t>(value);
  } else {
    to[shared] |= static_cast<std::uint8_t>(value << (4 * half));
  }
}

/// Writes streams of rows.
class RowWriter {
 public:
  RowWriter(const PackedWeight& weight, const RowLayout& layout, int held_bits)
      : weight_(weight), entries_(weight), layout_(layout), held_bits_(held_bits) {
    if (formats::has_book(weight.scheme) && weight.scheme.code.book != formats::Book::kPerRow) {
      table_ = int8_table(formats::book_of(weight, 0));
    }
  }

  /// `stream` is zero before.
  void write(std::int64_t row, std::uint8_t* stream) const {
    if (formats::has_book(weight_.scheme)) {
      write_table(table_ ? *table_ : int8_table(formats::book_of(weight_, row)), stream);
    }
    std::uint8_t* const masks = stream + layout_.masks();
    std::uint8_t* to = stream + layout_.first_window();
    layout_.for_windows(row, [&](std::int64_t window, std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; ++at) {
        const std::int64_t first = formats::stored_group(weight_, at) * layout_.shared();
        for (std::int64_t piece = first; piece < first + layout_.shared(); ++piece) {
          const std::int64_t lane = piece % kSparseWindow;
          masks[2 * window + lane / 8] |= static_cast<std::uint8_t>(1 << lane % 8);
        }
        write_group(row, at, at - begin, end - begin, to);
      }
      to += layout_.bytes(end - begin);
    });
  }

 private:
  static void write_table(const Int8Table& table, std::uint8_t* stream) {
    static_assert(sizeof(table.entries) == kTableBytes);
    std::memcpy(stream, table.entries.data(), kTableBytes);
    std::memcpy(stream + kTableBytes, &table.unit, sizeof(table.unit));
  }
  /// Stored group `at`, entry `entry` of `count` that a window keeps.
  void write_group(std::int64_t row, std::int64_t at, std::int64_t entry, std::int64_t count,
                   std::uint8_t* window) const {
    const core::Fp16 scale = formats::stored_scale(weight_, at, row);
    std::memcpy(window + 2 * entry, &scale, sizeof(scale));
    if (!formats::has_book(weight_.scheme)) {
      set_held(window + layout_.zeros(count), held_bits_, entry, entry / 2, entry % 2,
               entries_.zero(at));
    }
    const int piece = layout_.piece();
    const std::int64_t line = kSparseQuad * count * layout_.shared();  // bytes
    for (std::int64_t i = 0; i < weight_.scheme.scale.group; ++i) {
      const std::int64_t quad = i % piece / kSparseQuad;
      const std::int64_t byte =
          (entry * layout_.shared() + i / piece) * kSparseQuad + i % kSparseQuad;
      set_held(window + layout_.codes(count), held_bits_, quad * line + byte,
               quad / 2 * line + byte, quad % 2, entries_.code(at, i));
    }
  }

  const PackedWeight& weight_;
  StoredEntries entries_;
  const RowLayout& layout_;
  int held_bits_;
  std::optional<Int8Table> table_;  // of all rows; none: they have no book, or each its own
};

/// Writes units of tiles.
class TileUnitWriter {
 public:
  TileUnitWriter(const PackedWeight& weight, const TileUnitLayout& layout, int held_bits)
      : weight_(weight), entries_(weight), layout_(layout), held_bits_(held_bits) {}

  /// Stored group `at`, of tile `tile`. `unit` is zero before.
  void write(std::int64_t at, std::int64_t tile, std::uint8_t* unit) const {
    for (int row = 0; row < kSparseTile; ++row) {
      const std::int64_t entry = formats::stored_entry(weight_, at, tile * kSparseTile + row);
      write_scale(entry, row, unit + layout_.scales);
      set_held(unit + layout_.zeros, held_bits_, row, row % kHalf, row / kHalf,
               entries_.zero(entry));
      for (int i = 0; i < weight_.scheme.scale.group; ++i) {
        const int quad = i / kSparseQuad;
        const int byte = row * kSparseQuad + i % kSparseQuad;
        set_held(unit, held_bits_, quad * kSparseTileLine + byte, quad / 2 * kSparseTileLine + byte,
                 quad % 2, entries_.code(entry, i));
      }
    }
  }

 private:
  static constexpr int kHalf = kSparseTile / 2;

  void write_scale(std::int64_t entry, int row, std::uint8_t* scales) const {
    if (weight_.scheme.scale.type == formats::ScaleType::kUnits) {
      scales[row] = static_cast<std::uint8_t>(entries_.whole_scale(entry));
      return;
    }
    const std::uint16_t scale = entries_.half_scale(entry);
    std::memcpy(scales + std::ptrdiff_t{2} * row, &scale, sizeof(scale));
  }

  const PackedWeight& weight_;
  StoredEntries entries_;
  const TileUnitLayout& layout_;
  int held_bits_;
};

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
  const RowLayout layout(weight, held_bits_);
  first_.push_back(0);
  for (std::int64_t row = 0; row < weight.n; ++row) {
    first_.push_back(first_.back() + layout.length(row));
  }
  memory_ = PageBuffer(std::int64_t{first_.back()} * kStreamBorder + kReadBehind);
  const RowWriter writer(weight, layout, held_bits_);
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
