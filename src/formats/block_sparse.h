#pragma once

#include <cstdint>
#include <span>

#include "formats/packed_weight.h"

/// Block-sparse rows (GQSA, arXiv 2412.17560, section 3.3): of each row only the groups that hold a
/// weight other than 0 are stored, one behind the other, each with its index in the row.
///
///   row 0   | g1 | .. | g4 |          row_index  0  2  2  5 ...
///   row 1   (empty)                   groups     1  4 | 0  3  7 | ...
///   row 2   | g0 | .. | g3 | g7 |     codes, scales, zeros: one entry for each of `groups`
///
/// A group of 16 with 4 bits takes 8 bytes of codes, 2 of scale, 1/2 of zero point and 1 or 2 of
/// index: 11.5 or 12.5 bytes, where half of the groups are kept 2.875 or 3.125 bits per weight, and
/// 4 bytes for each row. Scales of 7 bits (int4-asym-g16-s7-bsr) save 1 1/8 bytes of a group and
/// take one more for the unit of each row.
///
/// With a pattern of tiles (Sparsity::kTileGroups, t = 16) `row_index` and `groups` count tiles of
/// t rows that keep the same groups. A group stands t times, row after row:
///
///   rows 0 .. t-1    | g1 | .. | g4 |       row_index  0  2 ...
///   rows t .. 2t-1   ...                    groups     1  4 | ...
///                                           codes      row 0 of g1, row 1 of g1 .. row 0 of g4 ..
///
/// It then takes 10.5 bytes and its share of the index. A group is left out where it is 0 in all t
/// rows.
///
/// Rows of floats (f16-g16-bsr) have `values`, the group's float16 numbers, in the place of codes,
/// scales and zeros: 33 or 34 bytes for a group of 16.
///
/// Rows of codes of a learned book (lut4-row-g16-bsr) have `book` beside them, for each row or for
/// all, as other weights do. A group need not contain a 0 to be left out: its scale is 0.
namespace nibble::formats {

/// Bytes of an index of a group in rows of k inputs: 1 up to 256 groups, else 2.
std::int64_t group_index_bytes(const Scheme& scheme, std::int64_t k);

/// The groups of a row, or of its tile, as they are stored: [begin, end) of all of `groups`.
struct StoredGroups {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
StoredGroups stored_groups_of(const PackedWeight& weight, std::int64_t row);

/// Groups that a weight stores, of all rows, or tiles.
std::int64_t stored_group_count(const PackedWeight& weight);

/// Which group of its row the weight's stored group `at` is.
std::int64_t stored_group(const PackedWeight& weight, std::int64_t at);

/// Calls visit(at, group) for each group that a row, or its tile, stores: where it stands, and
/// which group of its row it is. Both ascend.
template <class Visit>
void for_each_stored_group(const PackedWeight& weight, std::int64_t row, const Visit& visit) {
  const auto [begin, end] = stored_groups_of(weight, row);
  for (std::int64_t at = begin; at < end; ++at) {
    visit(at, stored_group(weight, at));
  }
}

/// Where codes, scale and zero point of stored group `at` of row `row` stand.
std::int64_t stored_entry(const PackedWeight& weight, std::int64_t at, std::int64_t row);

/// The scale of the entry, which is of row `row`: each multiple of a unit is a float16, too.
core::Fp16 stored_scale(const PackedWeight& weight, std::int64_t entry, std::int64_t row);

/// `scheme` with all groups: without the group where it has no scales (f16).
Scheme full_scheme(Scheme scheme);

/// A row of floats: out[k].
void decode_stored_floats(const PackedWeight& weight, std::int64_t row, std::span<float> out);

/// Sets what the row does not store of out[k] to 0.
void clear_other_groups(const PackedWeight& weight, std::int64_t row, std::span<float> out);

/// One row of a block-sparse weight with all of its groups: a weight of 1 output in full_scheme().
PackedWeight full_row(const PackedWeight& weight, std::int64_t row);

/// A valid weight in `scheme`, whose full_scheme() is that of `full`: without the groups whose
/// weights are all 0, be it that their codes stand for 0, that their scale is 0, or that floats
/// are. At least one group is kept: the first.
/// Throws kInvalidModel where there is no such scheme, or where its groups or the rows of its
/// pattern do not divide the weight.
PackedWeight to_block_sparse(const PackedWeight& full, const Scheme& scheme);

/// A block-sparse weight with a pattern for each row, which keeps what it kept; itself where it has
/// one.
PackedWeight with_row_pattern(const PackedWeight& weight);

/// Groups [first, last) of rows [begin, end), as a weight of its own, whose groups count from
/// `first` on. Where none of them is stored, the first is, as zeros. Throws kUsage where [begin,
/// end) are no whole tiles.
PackedWeight groups_of(const PackedWeight& weight, std::int64_t begin, std::int64_t end,
                       std::int64_t first, std::int64_t last);

}  // namespace nibble::formats
