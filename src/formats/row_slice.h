#pragma once

#include <cstdint>

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

/// Rows [begin, end) of a table in the same way.
core::Tensor own_rows_of(const core::Tensor& table, std::int64_t begin, std::int64_t end);

}  // namespace nibble::formats
