#pragma once

#include <cstdint>
#include <string>

#include "formats/packed_weight.h"

namespace nibble::formats {

/// Where the inputs of a weight can be cut, so that the outputs of the parts add up to those of the
/// whole.
struct ColumnCuts {
  std::int64_t step = 1;  // at multiples of it
  std::string refusal;    // why nowhere, as the end of a message; empty: step counts
};

/// Those of rows of k inputs. Refused are orders of inputs and tails, which mix them, Hadamards
/// that do, and inputs that are coded together with others. Activations that are rounded by one
/// scale for each token are rounded by one for each token and part.
ColumnCuts column_cuts(const Scheme& scheme, std::int64_t k);

/// Inputs [begin, end) of a weight, as a weight of its own of the same scheme, in memory of its
/// own. What inputs share (scales of rows, books, the scale of the inputs) stays whole. decode_row
/// of its row i is that part of row i. Throws kUsage where the scheme cannot be cut there, kFailed
/// where there are no such inputs.
PackedWeight columns_of(const PackedWeight& weight, std::int64_t begin, std::int64_t end);

}  // namespace nibble::formats
