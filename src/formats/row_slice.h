#pragma once

#include <cstdint>
#include <span>

#include "formats/packed_weight.h"

namespace nibble::formats {

/// Outputs [begin, end) of a weight, as a weight of its own of the same scheme. What belongs to one
/// output shares the bytes of `weight`; what all outputs share (order of inputs, a scale or a book
/// of the matrix, the scale of the inputs) stays whole; block-sparse rows are copied. decode_row of
/// its row i is that of row begin + i. Throws kFailed where there are no such rows.
PackedWeight rows_of(const PackedWeight& weight, std::int64_t begin, std::int64_t end);

/// The same, but what lies in memory (not in a mapped file) is copied, so that the memory of the
/// whole weight goes with the last who holds it.
PackedWeight own_rows_of(const PackedWeight& weight, std::int64_t begin, std::int64_t end);

/// Whether each output of a scheme is stored by itself, so that outputs can stand in any order: not
/// where several are coded, kept or scaled together.
bool can_order_rows(const Scheme& scheme);

/// `weight` with its outputs in another order, in memory of its own: decode_row of its row i is
/// that of row order[i]. What all outputs share is that of `weight`. Throws kFailed where
/// can_order_rows() is false, or a row is none of the weight's.
PackedWeight rows_in_order(const PackedWeight& weight, std::span<const std::int64_t> order);

/// Rows [begin, end) of a table in the same way as own_rows_of().
core::Tensor own_rows_of(const core::Tensor& table, std::int64_t begin, std::int64_t end);

}  // namespace nibble::formats
