#pragma once

#include <cstdint>

/// Products of small matrices of which two of each four numbers are stored, by one warp (PTX ISA,
/// "warp-level matrix instructions for sparse matrices"). Lane 4 g + t.
namespace nibble::ops::cuda {

/// c[16][8] += a[16][32] b[32][8] where a has two of each four inputs, which ascend, float16
/// operands and float32 sums. a: what is kept of fours t of rows g and g + 8, then of fours 4 + t;
/// b: column g at k = 2 t and 2 t + 1, and 8, 16 and 24 behind them. indices: lane 4 g + 2 kPair +
/// i has 4 bits for each four at k = 16 i .., of row g and then of row g + 8. Needs sm_80.
template <int kPair>
__device__ __forceinline__ void mma_sparse_f16(float (&c)[4], const std::uint32_t (&a)[4],
                                               const std::uint32_t (&b)[4], std::uint32_t indices) {
  asm volatile(
      "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},"
      "{%4,%5,%6,%7},{%8,%9,%10,%11},{%0,%1,%2,%3},%12,%13;"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
        "r"(indices), "n"(kPair));
}

/// c[16][8] += a[16][64] b[64][8], the same of INT8, exact. a: what is kept of fours 2 t and 2 t +
/// 1 of rows g and g + 8, then of fours 8 + 2 t and 9 + 2 t; b: column g at k = 4 t .. 4 t + 3, and
/// 16, 32 and 48 behind them. indices: lane 4 g + 2 i + r has those of the fours at k = 32 i .. of
/// row g + 8 r. Needs sm_80.
__device__ __forceinline__ void mma_sparse_s8(std::int32_t (&c)[4], const std::uint32_t (&a)[4],
                                              const std::uint32_t (&b)[4], std::uint32_t indices) {
  asm volatile(
      "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},"
      "{%4,%5,%6,%7},{%8,%9,%10,%11},{%0,%1,%2,%3},%12,0x0;"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
        "r"(indices));
}

}  // namespace nibble::ops::cuda
