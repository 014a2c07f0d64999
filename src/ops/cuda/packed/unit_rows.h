#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/packed_weight.h"
#include "ops/cuda/packed/unit_format.h"
#include "ops/linear_kernel.h"

namespace nibble::ops::cuda {

/// The format that holds weights of this scheme. Integers of 2 and 3 bits, and books of 4 and 8
/// entries, lie in planes, or as 4 bits where activations are rounded or units have eight groups;
/// codes of 8 bits that are neither are kBytes. Units of eight groups also hold those whose
/// activations have scales for less than 128 inputs. Minima, and scales that are multiples, are not
/// in it (blocks/block_weight.h). Throws kUsage, naming the scheme and the
/// reason, for one that no kernel computes (unit_refusal).
UnitFormat unit_format_of(const formats::Scheme& scheme);

/// Why weights lie in no units: they are dense, block-sparse rows, two of each four, or trellis
/// codes.
Refusal layout_refusal(const formats::Scheme& scheme);

/// Whether weights of the scheme are to lie in units.
inline bool wants_units(const formats::Scheme& scheme) {
  return !layout_refusal(scheme);
}

/// Why unit_format_of() does not know the scheme.
Refusal unit_refusal(const formats::Scheme& scheme);

/// Rows of weights of one scheme and as many inputs, as they stand in units: all of the first
/// weight, then the next; or, in pairs, eight rows of the first, eight of the second, and so on, so
/// that a lane has row i of both.
struct UnitRows {
  std::vector<const formats::PackedWeight*> weights;
  bool pairs = false;

  std::int64_t count() const;
  struct Place {
    std::size_t weight;
    std::int64_t row;
  };
  Place place(std::int64_t row) const;
};

/// Rows that two weights must have a multiple of to stand in pairs.
inline constexpr std::int64_t kPairRows = 8;

/// What is added to codes, so that integers of fewer bits are 4-bit ones of the same value.
int code_shift(const formats::Scheme& scheme);

/// NVFP4's scale of the whole matrix, 1 for others. It goes into the factors of rows: the scales
/// that are left are exact in float16.
float matrix_scale(const formats::PackedWeight& weight);

/// Code books of rows [first, first + factors.size()), of weights that have any; nothing is written
/// for rows behind the last.
///   tables  [rows][16] (book_table.h); books of up to 8 entries fill the first 8 bytes
///   factors [rows]: by what a row's sums are multiplied after their scales: the unit of its book
///           (and the scale of an NVFP4 matrix)
void write_tables(const UnitRows& rows, std::int64_t first, std::span<std::int8_t> tables,
                  std::span<float> factors);

}  // namespace nibble::ops::cuda
