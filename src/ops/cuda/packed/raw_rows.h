#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/float16.h"
#include "formats/bit_packing.h"
#include "formats/mx/e8m0.h"
#include "formats/nv/e4m3.h"
#include "formats/row_unit.h"

/// Compressed weights as files have them, on their way into units: host and device read them with
/// the same functions.
namespace nibble::ops::cuda {

struct UnitRows;

/// How a file stores scales (formats/packed_weight.h).
enum class StoredScale { kF16, kE8m0, kE4m3, kUnits };

/// Rows in the order in which they stand in units. The parts of a row stand behind one another:
/// codes, scales, zeros, minima and the unit of scales, those that the scheme has.
struct RawRows {
  const std::uint8_t* bytes = nullptr;
  std::int64_t stride = 0;  // bytes from row to row, and to the parts of a row:
  std::int64_t scales = 0;
  std::int64_t zeros = 0;
  std::int64_t minima = 0;
  std::int64_t unit = 0;
  std::int64_t count = 0;  // rows
  std::int64_t k = 0;
  std::int64_t group = 0;  // inputs that share a scale
  int bits = 0;
  int shift = 0;  // added to codes, so that integers of fewer bits are 4-bit ones of the same value
  StoredScale scale_kind = StoredScale::kF16;

  /// The bits of inputs [input, input + 8), a multiple of 8, as they lie; zeros behind the last.
  constexpr std::uint64_t eight_codes(std::int64_t row, std::int64_t input) const {
    const std::int64_t begin = input / 8 * bits;
    const std::uint8_t* from = bytes + row * stride + begin;
    std::uint64_t word = 0;
    for (int i = 0; i < 8; ++i) {
      if (i < bits && begin + i < scales) {
        word |= std::uint64_t{from[i]} << 8 * i;
      }
    }
    return word;
  }
  /// Number `i` of eight.
  constexpr std::uint8_t code(std::uint64_t eight, unsigned i) const {
    const auto code = static_cast<unsigned>(eight >> (static_cast<unsigned>(bits) * i));
    return static_cast<std::uint8_t>((code & ((1u << bits) - 1)) + static_cast<unsigned>(shift));
  }
  constexpr std::uint8_t zero(std::int64_t row, std::int64_t at) const {
    return formats::get_code(bytes + row * stride + zeros, bits, at);
  }
  /// The bits of a float16.
  constexpr std::uint16_t minimum(std::int64_t row, std::int64_t at) const {
    return half_bits(bytes + row * stride + minima, at);
  }
  /// In 16 bits, of the kind that units have for the scheme. All are exact there; NVFP4's without
  /// the scale of the matrix.
  constexpr std::uint16_t scale(std::int64_t row, std::int64_t at) const {
    const std::uint8_t* of_row = bytes + row * stride;
    switch (scale_kind) {
      case StoredScale::kE8m0:
        return core::to_bf16(formats::e8m0_to_float(of_row[scales + at])).bits;
      case StoredScale::kE4m3:
        return core::to_fp16(formats::e4m3_to_float(of_row[scales + at])).bits;
      case StoredScale::kUnits:
        return core::to_fp16(formats::scale_of_units(
                                 formats::get_code(of_row + scales, formats::kUnitScaleBits, at),
                                 formats::unit_value(of_row[unit])))
            .bits;
      case StoredScale::kF16:
        break;
    }
    return half_bits(of_row + scales, at);
  }

 private:
  static constexpr std::uint16_t half_bits(const std::uint8_t* from, std::int64_t at) {
    return static_cast<std::uint16_t>(from[2 * at] | from[2 * at + 1] << 8);
  }
};

/// The layout of rows of weights (unit_rows.h), of which there are no bytes yet, nor a count.
RawRows raw_layout(const UnitRows& rows);

/// Copies rows [first, first + count) out of their files: count * layout.stride bytes.
void read_raw_rows(const UnitRows& rows, const RawRows& layout, std::int64_t first,
                   std::int64_t count, std::byte* target);

}  // namespace nibble::ops::cuda
