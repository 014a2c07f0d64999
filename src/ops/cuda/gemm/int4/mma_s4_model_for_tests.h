#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

/// Instructions of one warp, lane by lane, after the tables of the PTX ISA (8.8, "matrix fragments
/// for mma.m16n8k64" with .s4, and "ldmatrix").
namespace nibble::ops::cuda::model {

inline constexpr int kLanes = 32;

/// So many 32-bit registers of each lane.
template <std::size_t kCount>
using Registers = std::array<std::array<std::uint32_t, kCount>, kLanes>;
using SumRegisters = std::array<std::array<std::int32_t, 4>, kLanes>;

/// ldmatrix.x4: lane l names the row l % 8 of the matrix l / 8 by its place in memory, 16 bytes.
/// Register i of lane l is word l % 4 of row l / 4 of matrix i.
inline Registers<4> load_matrices(std::span<const std::uint8_t> memory,
                                  const std::array<int, kLanes>& places) {
  Registers<4> loaded = {};
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    for (std::size_t i = 0; i < 4; ++i) {
      const auto row = static_cast<std::size_t>(places[8 * i + lane / 4]);
      std::memcpy(&loaded[lane][i], &memory[row + 4 * (lane % 4)], 4);
    }
  }
  return loaded;
}

inline int signed_nibble(std::uint32_t word, std::size_t number) {
  const auto nibble = static_cast<int>(word >> (4 * number) & 15);
  return nibble < 8 ? nibble : nibble - 16;
}

/// sums[16][8] += left[16][64] right[64][8], mma.m16n8k64.row.col.s32.s4.s4.s32.
inline void multiply(SumRegisters& sums, const Registers<4>& left, const Registers<2>& right) {
  int a[16][64] = {};
  int b[64][8] = {};
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const std::size_t group = lane >> 2;
    const std::size_t thread = lane % 4;
    for (std::size_t i = 0; i < 32; ++i) {
      const std::size_t row = i < 8 || (i >= 16 && i < 24) ? group : group + 8;
      const std::size_t column = thread * 8 + (i & 7) + (i < 16 ? 0 : 32);
      a[row][column] = signed_nibble(left[lane][i / 8], i % 8);
    }
    for (std::size_t i = 0; i < 16; ++i) {
      b[thread * 8 + (i & 7) + (i < 8 ? 0 : 32)][group] = signed_nibble(right[lane][i / 8], i % 8);
    }
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t row = (lane >> 2) + (i < 2 ? 0 : 8);
      const std::size_t column = lane % 4 * 2 + (i & 1);
      for (std::size_t k = 0; k < 64; ++k) {
        sums[lane][i] += a[row][k] * b[k][column];
      }
    }
  }
}

}  // namespace nibble::ops::cuda::model
