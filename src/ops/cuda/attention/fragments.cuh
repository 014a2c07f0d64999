#pragma once

#include <cstdint>

#include <cuda_fp16.h>

#include "ops/cuda/attention/kv_layout.h"

/// Tiles of keys and values (kv_layout.h) as operands of matrix instructions.
namespace nibble::ops::cuda {

/// 32-bit words of a lane for one 16 x 16 tile.
template <KvType T>
inline constexpr int kTileWords = bits_of(T) / 4;

/// A 16 x 16 operand: registers r = row / 8 + 2 (column / 8), of two float16 each.
struct Tile {
  std::uint32_t r[4];
};

namespace codes {

/// 1024 + code has the code in its low bits.
inline constexpr std::uint32_t kMagic = 0x64006400u;

__device__ __forceinline__ std::uint32_t without_magic(std::uint32_t halves) {
  const __half2 x = *reinterpret_cast<const __half2*>(&halves);
  const __half2 y = __hsub2(x, __half2half2(__ushort_as_half(0x6400)));  // 1024
  return *reinterpret_cast<const std::uint32_t*>(&y);
}

/// The same for codes that stand 4 bits higher.
__device__ __forceinline__ std::uint32_t without_magic_high(std::uint32_t halves) {
  const __half2 x = *reinterpret_cast<const __half2*>(&halves);
  const __half2 y = __hfma2(x, __half2half2(__ushort_as_half(0x2c00)),  // 1/16
                            __half2half2(__ushort_as_half(0xd400)));    // -64
  return *reinterpret_cast<const std::uint32_t*>(&y);
}

}  // namespace codes

/// Tile number `tile` of a lane's words, as float16; codes of integers as they are.
template <KvType T, bool kKeys>
__device__ __forceinline__ Tile tile_of(const std::uint32_t* words, int tile) {
  if constexpr (T == KvType::kInt4) {
    const std::uint32_t low = words[tile];
    const std::uint32_t high = low >> 8;
    const std::uint32_t first = codes::without_magic((low & 0x000f000fu) | codes::kMagic);
    const std::uint32_t second = codes::without_magic_high((low & 0x00f000f0u) | codes::kMagic);
    const std::uint32_t third = codes::without_magic((high & 0x000f000fu) | codes::kMagic);
    const std::uint32_t fourth = codes::without_magic_high((high & 0x00f000f0u) | codes::kMagic);
    return kKeys ? Tile{{first, third, second, fourth}} : Tile{{first, second, third, fourth}};
  } else if constexpr (T == KvType::kInt8) {
    Tile result;
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const std::uint32_t word = words[2 * tile + part];
      result.r[2 * part] = codes::without_magic(__byte_perm(word, codes::kMagic, 0x4140));
      result.r[2 * part + 1] = codes::without_magic(__byte_perm(word, codes::kMagic, 0x4342));
    }
    return result;
  } else {
    return {{words[4 * tile], words[4 * tile + 1], words[4 * tile + 2], words[4 * tile + 3]}};
  }
}

/// c [16, 8] += a [16, 16] b [16, 8]: lane 4g + t has of b the rows 2t + {0, 1} (b0) and 2t + 8 +
/// {0, 1} (b1) of column g, and of c rows g (c[0], c[1]) and g + 8, columns 2t and 2t + 1.
__device__ __forceinline__ void multiply_add(float (&c)[4], const Tile& a, std::uint32_t b0,
                                             std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
}

/// An 8 x 8 matrix of float16 transposed: lane 4g + t has row g, columns 2t and 2t + 1.
__device__ __forceinline__ std::uint32_t transposed(std::uint32_t halves) {
  std::uint32_t result;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(halves));
  return result;
}

/// Which tokens of a tile a lane's registers hold may be seen: zeros in place of the others, which
/// may be anything.
__device__ __forceinline__ std::uint32_t masked(std::uint32_t halves, bool low, bool high) {
  return halves & ((low ? 0x0000ffffu : 0u) | (high ? 0xffff0000u : 0u));
}

__device__ __forceinline__ float power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace nibble::ops::cuda
