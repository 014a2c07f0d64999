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
  return static_cast<unsigned>(bits_of(kind)) * kLanes / 2;
}

/// Calls body<kind>().
template <class Body>
void with_code_kind(CodeKind kind, const Body& body) {
  switch (kind) {
    case CodeKind::kInt4:
      return body.template operator()<CodeKind::kInt4>();
    case CodeKind::kInt4WithZeros:
      return body.template operator()<CodeKind::kInt4WithZeros>();
    case CodeKind::kInt8:
      return body.template operator()<CodeKind::kInt8>();
    case CodeKind::kInt8WithZeros:
      return body.template operator()<CodeKind::kInt8WithZeros>();
    case CodeKind::kBook:
      return body.template operator()<CodeKind::kBook>();
    case CodeKind::kBytes:
      return body.template operator()<CodeKind::kBytes>();
    case CodeKind::kInt3:
      return body.template operator()<CodeKind::kInt3>();
    case CodeKind::kInt3WithZeros:
      return body.template operator()<CodeKind::kInt3WithZeros>();
    case CodeKind::kInt2:
      return body.template operator()<CodeKind::kInt2>();
    case CodeKind::kInt2WithZeros:
      return body.template operator()<CodeKind::kInt2WithZeros>();
    case CodeKind::kBook3:
      return body.template operator()<CodeKind::kBook3>();
    case CodeKind::kBook2:
      return body.template operator()<CodeKind::kBook2>();
    case CodeKind::kInt4WithShifts:
      return body.template operator()<CodeKind::kInt4WithShifts>();
    case CodeKind::kInt8WithShifts:
      return body.template operator()<CodeKind::kInt8WithShifts>();
  }
}

struct CodeVector {
  std::uint32_t words[4] = {};
};

/// Calls put(row of the tile, input of the unit, code) for what a lane has in `kRuns` runs of eight
/// inputs, 32 apart, from run `first` on.
template <unsigned kRuns, class Put>
constexpr void each_code_of_lane(const RawRows& raw, std::int64_t row, std::int64_t input,
                                 unsigned lane, unsigned first, const Put& put) {
  constexpr unsigned kRun = 8;
  for (unsigned of_tile = lane / 4; of_tile < kTileRows; of_tile += kTileRows / 2) {
    if (row + of_tile >= raw.count) {
      break;
    }
    for (unsigned run = first; run < first + kRuns; ++run) {
      const unsigned k = run * 32 + lane % 4 * kRun;
      const std::int64_t left = raw.k - input - k;
      const std::uint64_t codes = left > 0 ? raw.eight_codes(row + of_tile, input + k) : 0;
      for (unsigned i = 0; i < kRun; ++i) {
        if (i < left) {
          put(of_tile, k + i, raw.code(codes, i));
        }
      }
    }
  }
}

/// Of planes: a lane's lower two bits, or the third bits of two lanes.
template <CodeKind kKind>
constexpr CodeVector plane_vector(const RawRows& raw, std::int64_t row, std::int64_t input,
                                  unsigned vector) {
  CodeVector result;
  const auto put = [&](const CodePlace& place, unsigned bits) {
    result.words[place.word] |= bits << place.shift;
  };
  if (vector < kLanes) {
    each_code_of_lane<4>(raw, row, input, vector, 0,
                         [&](unsigned of_tile, unsigned k, std::uint8_t code) {
                           put(code_place(kKind, of_tile, k), code & 3u);
                         });
    return result;
  }
  const unsigned first = 2 * (vector - kLanes);
  for (unsigned lane = first; lane < first + 2; ++lane) {
    each_code_of_lane<4>(raw, row, input, lane, 0,
                         [&](unsigned of_tile, unsigned k, std::uint8_t code) {
                           put(third_bit_place(kKind, of_tile, k), code >> 2u);
                         });
  }
  return result;
}

/// One of them, of the tile whose first row is `row`: inputs of a lane for its two rows.
template <CodeKind kKind>
constexpr CodeVector code_vector(const RawRows& raw, std::int64_t row, std::int64_t input,
                                 unsigned vector) {
  if constexpr (has_planes(kKind)) {
    return plane_vector<kKind>(raw, row, input, vector);
  }
  constexpr unsigned kRuns = has_byte_codes(kKind) ? 1 : 2;
  CodeVector result;
  each_code_of_lane<kRuns>(raw, row, input, vector % kLanes, vector / kLanes * kRuns,
                           [&](unsigned of_tile, unsigned k, std::uint8_t code) {
                             const CodePlace place = code_place(kKind, of_tile, k);
                             result.words[place.word] |=
                                 std::uint32_t{turned_code(kKind, of_tile, code)} << place.shift;
                           });
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

constexpr std::uint16_t unit_shift(const RawRows& raw, std::int64_t row, std::int64_t input) {
  const std::int64_t at = scale_group(raw, row, input);
  return at < 0 ? std::uint16_t{0} : raw.minimum(row, at);
}

/// One of the kUnitRows * format.groups scales, zeros or shifts of a unit.
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
