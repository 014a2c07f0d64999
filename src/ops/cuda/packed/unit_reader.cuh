#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ops/cuda/packed/book_table.h"
#include "ops/cuda/packed/unit_format.h"

/// Single weights out of units (unit_format.h).
namespace nibble::ops::cuda {

/// weight(row, k) = integer(row, k) * scale(row, k) * factor(row) + shift(row, k).
struct UnitReader {
  const std::byte* units;
  const std::int8_t* tables;
  const float* factors;  // or null
  CodeKind codes;
  bool bf16_scales;
  int blocks;  // units of a row group
  int groups;
  int tile_bytes;
  int code_bytes;
  int zero_offset;

  explicit UnitReader(const UnitsView& view)
      : units(view.units),
        tables(view.tables),
        factors(view.factors),
        codes(view.format.codes),
        bf16_scales(view.format.scales == ScaleKind::kBf16),
        blocks(static_cast<int>(unit_grid(view.n, view.k).blocks)),
        groups(static_cast<int>(view.format.groups)),
        tile_bytes(static_cast<int>(view.format.tile_bytes())),
        code_bytes(static_cast<int>(view.format.code_bytes())),
        zero_offset(static_cast<int>(view.format.zero_offset())) {}

  __device__ float factor(int row) const { return factors == nullptr ? 1.0f : factors[row]; }

  __device__ float scale(int row, int k) const {
    const auto* scales = reinterpret_cast<const std::uint16_t*>(tile(row, k) + code_bytes);
    const std::uint16_t bits = scales[place(row, k)];
    return bf16_scales ? __uint_as_float(static_cast<std::uint32_t>(bits) << 16)
                       : __half2float(__ushort_as_half(bits));
  }

  /// Integers with shifts have no factors.
  __device__ float shift(int row, int k) const {
    if (!has_shifts(codes)) {
      return 0.0f;
    }
    const auto* shifts = reinterpret_cast<const std::uint16_t*>(tile(row, k) + zero_offset);
    return __half2float(__ushort_as_half(shifts[place(row, k)]));
  }

  __device__ int integer(int row, int k) const {
    const std::uint8_t* bytes = tile(row, k);
    const unsigned of_tile = static_cast<unsigned>(row) % kTileRows;
    const unsigned of_unit = static_cast<unsigned>(k) % kUnitInputs;
    const CodePlace at = code_place(codes, of_tile, of_unit);
    const std::uint8_t byte = bytes[16 * at.vector + 4 * at.word + at.shift / 8];
    if (has_planes(codes)) {
      int code = byte >> at.shift % 8 & 3;
      if (bits_of(codes) == 3) {
        const CodePlace third = third_bit_place(codes, of_tile, of_unit);
        code |= (bytes[16 * third.vector + 4 * third.word + third.shift / 8] >> third.shift % 8 & 1)
                << 2;
      }
      if (is_book(codes)) {
        return book_entry(tables + row * 16, static_cast<unsigned>(code));
      }
      return code - (has_zero_points(codes) ? bytes[zero_offset + place(row, k)]
                                            : 1 << (bits_of(codes) - 1));
    }
    if (has_byte_codes(codes)) {
      const int zero = has_zero_points(codes) ? bytes[zero_offset + place(row, k)] : 128;
      return turned_code(codes, of_tile, byte) - zero;
    }
    const auto code =
        turned_code(codes, of_tile, static_cast<std::uint8_t>(byte >> at.shift % 8 & 15));
    if (codes == CodeKind::kBook) {
      return book_entry(tables + row * 16, code);
    }
    return code - (has_zero_points(codes) ? bytes[zero_offset + place(row, k)] : 8);
  }

  __device__ float weight(int row, int k) const {
    return static_cast<float>(integer(row, k)) * scale(row, k) * factor(row) + shift(row, k);
  }

 private:
  __device__ const std::uint8_t* tile(int row, int k) const {
    const std::size_t unit = static_cast<std::size_t>(row / 64) * blocks + k / 128;
    return reinterpret_cast<const std::uint8_t*>(units) + unit * 4 * tile_bytes +
           row % 64 / 16 * tile_bytes;
  }
  // Of a scale, a zero or a shift in its tile.
  __device__ int place(int row, int k) const {
    return k % 128 * groups / 128 * 16 +
           static_cast<int>(scale_place(static_cast<unsigned>(row) % kTileRows));
  }
};

}  // namespace nibble::ops::cuda
