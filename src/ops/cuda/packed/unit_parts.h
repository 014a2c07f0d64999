#pragma once

#include <cstdint>

#include "ops/cuda/packed/raw_rows.h"
#include "ops/cuda/packed/unit_format.h"

/// Parts of a unit, each made by itself from rows as files have them. A unit of the rows from `row`
/// and the inputs from `input` on; what lies beyond the matrix is zero.
namespace nibble::ops::cuda {

inline constexpr unsigned kLanes = 32;

/// Vectors of 16 bytes among the codes of a tile.
constexpr unsigned code_vectors(CodeKind kind) {
  return has_byte_codes(kind) ? 4 * kLanes : 2 * kLanes;
}

struct CodeVector {
  std::uint32_t words[4] = {};
};

/// One of them, of the tile whose first row is `row`: inputs of a lane for its two rows.
template <CodeKind kKind>
constexpr CodeVector code_vector(const RawRows& raw, std::int64_t row, std::int64_t input,
                                 unsigned vector) {
  constexpr unsigned kRun = 8;                               // inputs side by side
  constexpr unsigned kRuns = has_byte_codes(kKind) ? 1 : 2;  // 32 inputs apart
  const unsigned lane = vector % kLanes;
  CodeVector result;
  for (unsigned of_tile = lane / 4; of_tile < kTileRows; of_tile += kTileRows / 2) {
    if (row + of_tile >= raw.count) {
      break;
    }
    for (unsigned run = 0; run < kRuns; ++run) {
      const unsigned first = (vector / kLanes * kRuns + run) * 32 + lane % 4 * kRun;
      const std::int64_t left = raw.k - input - first;
      const std::uint64_t codes = left > 0 ? raw.eight_codes(row + of_tile, input + first) : 0;
      for (unsigned i = 0; i < kRun; ++i) {
        if (i < left) {
          const CodePlace place = code_place(kKind, of_tile, first + i);
          const std::uint32_t code = turned_code(kKind, of_tile, raw.code(codes, i));
          result.words[place.word] |= code << place.shift;
        }
      }
    }
  }
  return result;
}

/// The group of scales in which input `input` lies, or -1 where there is nothing.
constexpr std::int64_t scale_group(const RawRows& raw, std::int64_t row, std::int64_t input) {
  return row < raw.count && input < raw.k ? input / raw.group : -1;
}

constexpr std::uint16_t unit_scale(const RawRows& raw, std::int64_t row, std::int64_t input) {
  const std::int64_t at = scale_group(raw, row, input);
  return at < 0 ? std::uint16_t{0} : raw.scale(row, at);
}

constexpr std::uint8_t unit_zero(const RawRows& raw, std::int64_t row, std::int64_t input) {
  const std::int64_t at = scale_group(raw, row, input);
  return at < 0 ? std::uint8_t{0} : raw.zero(row, at);
}

/// One of the kUnitRows * format.groups scales, or zeros, of a unit.
struct UnitColumn {
  std::int64_t tile;
  std::int64_t row;    // of the unit
  std::int64_t input;  // of the unit, its group's first
  std::int64_t place;  // among those of the tile

  constexpr UnitColumn(const UnitFormat& format, std::int64_t number)
      : tile(number / kTileRows / format.groups),
        row(tile * kTileRows + number % kTileRows),
        input(number / kTileRows % format.groups * (kUnitInputs / format.groups)),
        place(number / kTileRows % format.groups * kTileRows +
              scale_place(static_cast<unsigned>(number % kTileRows))) {}
};

}  // namespace nibble::ops::cuda
