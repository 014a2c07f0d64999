#pragma once

#include <cstdint>

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
/// 4 bytes for each row.
namespace nibble::formats {

/// Bytes of an index of a group in rows of k inputs: 1 up to 256 groups, else 2.
std::int64_t group_index_bytes(const Scheme& scheme, std::int64_t k);

/// The groups of a row as they are stored: [begin, end) of all that the weight stores.
struct StoredGroups {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
StoredGroups stored_groups_of(const PackedWeight& weight, std::int64_t row);

/// Groups that a weight stores, of all rows.
std::int64_t stored_group_count(const PackedWeight& weight);

/// Which group of its row the weight's stored group `at` is.
std::int64_t stored_group(const PackedWeight& weight, std::int64_t at);

/// `scheme` with all groups.
Scheme full_scheme(Scheme scheme);

/// One row of a block-sparse weight with all of its groups: a weight of 1 output in full_scheme().
PackedWeight full_row(const PackedWeight& weight, std::int64_t row);

/// A valid weight without the groups whose codes all equal their zero, in the scheme of
/// block-sparse rows. At least one group is kept: the first. Throws kInvalidModel where that scheme
/// is none.
PackedWeight to_block_sparse(const PackedWeight& full);

/// Groups [first, last) of rows [begin, end), as a weight of its own, whose groups count from
/// `first` on. Where none of them is stored, the first is, as zeros.
PackedWeight groups_of(const PackedWeight& weight, std::int64_t begin, std::int64_t end,
                       std::int64_t first, std::int64_t last);

}  // namespace nibble::formats
