#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "formats/activation.h"
#include "formats/exchange/exchange.h"

namespace nibble::formats::exchange {

/// A weight on grids of integers, w(n, k) = scale(n, g) * (code(n, k) - zero(n, g)), in which most
/// tools store theirs, or w(n, k) = scale(n, g) * code(n, k) + minimum(n, g).
struct IntegerGrid {
  int bits = 4;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t group = 0;  // inputs that share a scale, in stored order; 0: a whole row
  std::vector<std::uint8_t> codes = {};  // [n, k], in the order of the layer's inputs
  std::vector<float> scales = {};        // [n, groups]
  std::vector<std::uint8_t> zeros = {};  // [n, groups]; empty: 2^(bits - 1) everywhere
  std::vector<float> minima = {};        // [n, groups]; empty: there are zero points
  std::vector<std::int32_t> order = {};  // [k] stored input i is input order[i]; empty: as they are
  Activation activation = {};
};

/// Groups of a row.
std::int64_t groups_of(std::int64_t k, std::int64_t group);

/// The same numbers as a PackedWeight: symmetric where all zeros are 2^(bits - 1). Scales become
/// float16; codes, zeros and order are kept. Throws kInvalidModel naming the layer for a scale that
/// is not finite in float16.
ReadLayer pack_grid(const IntegerGrid& grid, std::string_view layer);

/// The grid of a weight, with its order where groups need one; nothing for codes of other types,
/// scales that are multiples, a Hadamard or a tail.
std::optional<IntegerGrid> grid_of(const PackedWeight& weight);

/// The same numbers with the bits, groups and zero points of `scheme`; nothing where that would
/// change one. Fewer bits fit into more, groups of 128 are two of 64 that have the same scale, a
/// symmetric grid is an asymmetric one. An order stays, where `scheme` has one; inputs are rounded
/// as `scheme` says.
std::optional<IntegerGrid> fitted(IntegerGrid grid, const Scheme& scheme);

/// Whether fitted() moves every grid of `from` whose groups divide its rows.
bool moves_to(const Scheme& from, const Scheme& to);

/// A grid with zero points next to the minima of `grid`, and what that changes (Frobenius norm
/// relative to that of the weights). Throws as nearest_grid().
struct WithZeroPoints {
  IntegerGrid grid;
  double error = 0;
};
WithZeroPoints with_zero_points(const IntegerGrid& grid, std::string_view layer);

/// The zero point of group `at` of all rows' groups.
int zero_of(const IntegerGrid& grid, std::size_t at);

/// The codes as words [n, words_for(k)], a row after another (word_stream.h).
core::Tensor words_of_codes(const IntegerGrid& grid);

/// Rows and columns of scales change places: F16 [groups, n]. They are float16 already, or kFailed
/// is thrown.
core::Tensor scales_by_group(const IntegerGrid& grid);
/// The same as they are, F16 [n, groups].
core::Tensor scales_by_row(const IntegerGrid& grid);

}  // namespace nibble::formats::exchange
