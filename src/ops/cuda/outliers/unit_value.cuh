#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ops/cuda/packed/unit_format.h"

/// Single weights out of units (unit_format.h).
namespace nibble::ops::cuda {

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

  __device__ float weight(int row, int k) const {
    const std::byte* tile =
        units + (static_cast<std::size_t>(row / 64) * blocks + k / 128) * 4 * tile_bytes +
        row % 64 / 16 * tile_bytes;
    const int group = k % 128 * groups / 128;
    const int place = group * 16 + row % 8 * 2 + row % 16 / 8;
    const auto bits = reinterpret_cast<const std::uint16_t*>(tile + code_bytes)[place];
    const float scale = bf16_scales ? __uint_as_float(static_cast<std::uint32_t>(bits) << 16)
                                    : __half2float(__ushort_as_half(bits));
    const float value = static_cast<float>(integer(tile, row, k % 128, place)) * scale;
    return factors == nullptr ? value : value * factors[row];
  }

 private:
  __device__ int integer(const std::byte* tile, int row, int k, int place) const {
    const int h = k / 32;
    const int lane = row % 8 * 4 + k % 32 / 8;
    const int e = k % 8 / 4;
    const int i = k % 4;
    const int upper = row % 16 / 8;
    const int swapped = i == 1 ? 2 : i == 2 ? 1 : i;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(tile);
    if (codes == CodeKind::kInt8 || codes == CodeKind::kInt8WithZeros) {
      const int code =
          static_cast<std::int8_t>(bytes[h * 512 + lane * 16 + (2 * e + upper) * 4 + swapped]);
      return codes == CodeKind::kInt8 ? code : code + 128 - bytes[zero_offset + place];
    }
    const bool book = codes == CodeKind::kBook;
    const int word = 2 * h + e;
    const int nibble = book ? 4 * upper + swapped : 4 * (i % 2) + 2 * (i / 2) + upper;
    const int byte = bytes[word / 4 * 512 + lane * 16 + word % 4 * 4 + nibble / 2];
    const int code = byte >> (nibble % 2 * 4) & 15;
    if (book) {
      return tables[row * 16 + code];
    }
    const int zero = codes == CodeKind::kInt4 ? 8 : bytes[zero_offset + place];
    return (upper == 1 ? code ^ 8 : code) - zero;
  }
};

}  // namespace nibble::ops::cuda
