#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/packed/unit_format.h"

/// Codes of 3 and 2 bits in registers: out of their planes (unit_format.h), as words of nibbles.
namespace nibble::ops::cuda {

/// The codes of 32 h + .. and of e as a word of 4-bit codes has them, rows g + 8 not turned over;
/// the nibbles' highest bits are clear. `low` is word h of a lane, `third` word h / 2 of its third
/// bits (unused where kBits is 2).
template <int kBits>
__device__ __forceinline__ std::uint32_t plane_nibbles(std::uint32_t low, std::uint32_t third,
                                                       int h, int e) {
  const std::uint32_t two = (e == 0 ? low : low >> 2) & 0x33333333u;
  if constexpr (kBits == 2) {
    return two;
  }
  const int number = h % 2 * 2 + e;
  static_assert(third_bit(0, 0) == 2 && third_bit(0, 1) == 1 && third_bit(1, 0) == 0 &&
                third_bit(1, 1) == 3);
  return two | ((number == 3 ? third >> 1 : third << number) & 0x44444444u);
}

/// What a lane holds of one tile.
template <int kBits>
struct PlaneWords {
  uint4 lows;
  uint2 thirds;  // of 3 bits

  __device__ static PlaneWords load(const std::byte* tile, int lane) {
    PlaneWords words;
    words.lows = *reinterpret_cast<const uint4*>(tile + lane * 16);
    if constexpr (kBits == 3) {
      words.thirds = *reinterpret_cast<const uint2*>(tile + 512 + lane * 8);
    }
    return words;
  }
  /// The same from an address in shared memory.
  __device__ static PlaneWords load_shared(std::uint32_t tile, int lane) {
    PlaneWords words;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.lows.x), "=r"(words.lows.y), "=r"(words.lows.z), "=r"(words.lows.w)
                 : "r"(tile + lane * 16));
    if constexpr (kBits == 3) {
      asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                   : "=r"(words.thirds.x), "=r"(words.thirds.y)
                   : "r"(tile + 512 + lane * 8));
    }
    return words;
  }
  __device__ std::uint32_t nibbles(int h, int e) const {
    const std::uint32_t low = h == 0 ? lows.x : h == 1 ? lows.y : h == 2 ? lows.z : lows.w;
    return plane_nibbles<kBits>(low, h < 2 ? thirds.x : thirds.y, h, e);
  }
};

}  // namespace nibble::ops::cuda
