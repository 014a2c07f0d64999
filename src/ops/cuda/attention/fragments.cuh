#pragma once

#include <cstdint>

#include <cuda_fp16.h>

#include "ops/cuda/attention/kv_layout.h"
#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/device_code/e4m3.cuh"

/// Tiles of keys and values (kv_layout.h) as operands of matrix instructions.
namespace nibble::ops::cuda {

/// 32-bit words of a lane for one 16 x 16 tile.
template <KvType T>
inline constexpr int kTileWords = bits_of(T) / 4;

/// A 16 x 16 operand: registers r = row / 8 + 2 (column / 8), of two float16 each.
struct Tile {
  std::uint32_t r[4];
};

/// Codes stand as float16 of their own bits: code c is the subnormal c * kCodeUnit, which matrix
/// instructions multiply exactly, so that a mask is all it takes. 4-bit codes of registers that
/// hold the high nibbles of bytes are kHighCodes times that: columns 8 to 15 of keys, rows 8 to 15
/// of values.
inline constexpr float kCodeUnit = 5.9604644775390625e-8f;  // 2^-24
inline constexpr float kHighCodes = 16.0f;

/// Tile number `tile` of a lane's words, as float16 or, of integers, codes.
template <KvType T, bool kKeys>
__device__ __forceinline__ Tile tile_of(const std::uint32_t* words, int tile) {
  if constexpr (T == KvType::kInt4) {
    const std::uint32_t low = words[tile];
    const std::uint32_t high = low >> 8;
    const std::uint32_t first = low & 0x000f000fu;
    const std::uint32_t second = low & 0x00f000f0u;
    const std::uint32_t third = high & 0x000f000fu;
    const std::uint32_t fourth = high & 0x00f000f0u;
    return kKeys ? Tile{{first, third, second, fourth}} : Tile{{first, second, third, fourth}};
  } else if constexpr (T == KvType::kInt8) {
    Tile result;
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const std::uint32_t word = words[2 * tile + part];
      result.r[2 * part] = __byte_perm(word, 0, 0x4140);
      result.r[2 * part + 1] = __byte_perm(word, 0, 0x4342);
    }
    return result;
  } else if constexpr (T == KvType::kFp8) {
    const std::uint32_t low = words[2 * tile];
    const std::uint32_t high = words[2 * tile + 1];
    return {{halves_of_e4m3(low), halves_of_e4m3(low >> 16), halves_of_e4m3(high),
             halves_of_e4m3(high >> 16)}};
  } else {
    return {{words[4 * tile], words[4 * tile + 1], words[4 * tile + 2], words[4 * tile + 3]}};
  }
}

/// Four words of a lane: unit number `unit` of the keys or values of a page in shared memory, for
/// tile_of(). All lanes call.
template <KvType T, bool kKeys, int D>
__device__ __forceinline__ void load_unit(std::uint32_t (&words)[4], const std::byte* from,
                                          int unit, int lane) {
  if constexpr (T == KvType::kF16) {
    // Register r: of keys the tokens from 8 (r % 2) on, of values those from 8 (r / 2) on, which
    // are its columns. Lane l has the address of row l % 8 for register l / 8.
    const int r = lane / 8;
    const int tokens = kKeys ? r % 2 : r / 2;
    const int dims = 2 * unit + (kKeys ? r / 2 : r % 2);
    const std::uint32_t at =
        shared_address(from + 128 * (tokens * (D / 8) + dims) + 16 * (lane % 8));
    if constexpr (kKeys) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                   : "r"(at)
                   : "memory");
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                   : "r"(at)
                   : "memory");
    }
    return;
  }
  const uint4 four = *reinterpret_cast<const uint4*>(from + 512 * unit + 16 * lane);
  words[0] = four.x;
  words[1] = four.y;
  words[2] = four.z;
  words[3] = four.w;
}

/// Two float16 of a query, for columns 8 to 15 of keys.
template <KvType T>
__device__ __forceinline__ std::uint32_t for_high_columns(std::uint32_t halves) {
  if constexpr (T == KvType::kInt4) {
    const __half2 x = __hmul2(*reinterpret_cast<const __half2*>(&halves),
                              __half2half2(__ushort_as_half(0x2c00)));  // 1 / kHighCodes
    return *reinterpret_cast<const std::uint32_t*>(&x);
  } else {
    return halves;
  }
}

/// What a product with codes has to be multiplied by.
template <KvType T>
inline constexpr float kProductUnit = is_integer(T) ? 1.0f / kCodeUnit : 1.0f;
template <KvType T>
inline constexpr float kHighProductUnit =
    T == KvType::kInt4 ? kProductUnit<T> / kHighCodes : kProductUnit<T>;

/// c [16, 8] += a [16, 16] b [16, 8]: lane 4g + t has of b the rows 2t + {0, 1} (b0) and 2t + 8 +
/// {0, 1} (b1) of column g, and of c rows g (c[0], c[1]) and g + 8, columns 2t and 2t + 1.
__device__ __forceinline__ void multiply_add(float (&c)[4], const Tile& a, std::uint32_t b0,
                                             std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
}

/// Which tokens of a tile a lane's registers hold may be seen: zeros in place of the others, which
/// may be anything.
__device__ __forceinline__ std::uint32_t masked(std::uint32_t halves, bool low, bool high) {
  return halves & ((low ? 0x0000ffffu : 0u) | (high ? 0xffff0000u : 0u));
}

/// exp2(x)
__device__ __forceinline__ float power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// exp2(a - b), 0 where a is -infinity.
__device__ __forceinline__ float relative_power(float a, float b) {
  return a == -INFINITY ? 0.0f : power_of_two(a - b);
}

}  // namespace nibble::ops::cuda
