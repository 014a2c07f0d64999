#pragma once

#include <cstdint>

/// Products and transposition of small matrices by one warp (PTX ISA, "warp-level matrix
/// instructions"). Lane 4 g + t.
namespace nibble::ops::cuda {

/// c[16][8] += a[16][32] b[32][8], exact. a: rows g, g + 8 at k = 4 t.., then both at k = 16 + 4
/// t..; b: column g at the same k; c: row g columns 2 t, 2 t + 1, then row g + 8.
__device__ __forceinline__ void mma_s8(std::int32_t (&c)[4], const std::uint32_t (&a)[4],
                                       std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
      "{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// c[16][8] += a[16][64] b[64][8], signed 4-bit integers, exact. a: rows g, g + 8 at k = 8 t..,
/// then both at k = 32 + 8 t..; b: column g at the same k. Devices from sm_90 on emulate it.
__device__ __forceinline__ void mma_s4(std::int32_t (&c)[4], const std::uint32_t (&a)[4],
                                       std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
      "{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// c[16][8] += a[16][16] b[16][8], float16 operands and float32 sums. a: rows g, g + 8 at k = 2 t
/// and 2 t + 1, then both at k = 8 + 2 t; b: column g at the same k.
__device__ __forceinline__ void mma_f16(float (&c)[4], const std::uint32_t (&a)[4],
                                        std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// The same with bfloat16 operands.
__device__ __forceinline__ void mma_bf16(float (&c)[4], const std::uint32_t (&a)[4],
                                         std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// An 8 x 8 matrix of float16 transposed: lane 4g + t has row g, columns 2t and 2t + 1.
__device__ __forceinline__ std::uint32_t transposed(std::uint32_t halves) {
  std::uint32_t result;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(halves));
  return result;
}

}  // namespace nibble::ops::cuda
