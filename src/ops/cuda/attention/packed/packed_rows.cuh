#pragma once

#include <cstdint>

#include <cuda_fp16.h>

#include "ops/cuda/elementwise/matrix_view.h"

/// Rows of heads in shared memory, for products of warps.
namespace nibble::ops::cuda::packed {

inline constexpr int kWarpRows = 16;
inline constexpr int kStepKeys = 64;

/// Scores of a warp's 16 rows with the keys of a step: of 8 keys each a product's registers.
using Scores = float[kStepKeys / 8][4];

__device__ __forceinline__ void clear(Scores& scores) {
#pragma unroll
  for (int e = 0; e < kStepKeys / 2; ++e) {
    scores[e / 4][e % 4] = 0.0f;
  }
}

/// Bytes from one row of a head to the next: an odd number of 16 bytes, so that eight rows lie in
/// different banks.
template <int D>
inline constexpr int kRowBytes = 2 * D + 16;

/// Copies 16 bytes in the background, or writes zeros where `there` is false.
__device__ __forceinline__ void copy_or_zero(std::uint32_t to, const __half* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
}

__device__ __forceinline__ void end_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Until at most kPending groups of this thread's copies are under way.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// The first `have` rows at `from`, `stride` elements apart, then zeros up to a multiple of 16
/// rows. kThreads call, each with its number.
template <int D, int kRows, int kThreads>
__device__ __forceinline__ void copy_rows(std::uint32_t to, const __half* from, std::int64_t stride,
                                          int have, int thread) {
  constexpr int kChunks = D / 8;
  constexpr int kAtOnce = kThreads / kChunks;
  const int needed = min(kRows, (have + 15) / 16 * 16);
  const int chunk = thread % kChunks;
  int row = thread / kChunks;
  if (kThreads % kChunks != 0 && row >= kAtOnce) {
    return;
  }
  from += row * stride + 8 * chunk;
  to += row * kRowBytes<D> + 16 * chunk;
#pragma unroll
  for (int first = 0; first < kRows; first += kAtOnce) {
    if (row < needed) {
      copy_or_zero(to + first * kRowBytes<D>, from, row < have);
    }
    row += kAtOnce;
    from += kAtOnce * stride;
  }
}

/// Writes 1 to `saturated` where one of `count` rows in shared memory has +-65504. kThreads call,
/// each with its number.
template <int D, int kThreads>
__device__ __forceinline__ void note_saturation(const std::byte* rows, int count, int thread,
                                                std::int32_t* saturated) {
  constexpr int kChunks = D / 8;
  bool found = false;
#pragma unroll 1
  for (int chunk = thread; chunk < count * kChunks; chunk += kThreads) {
    const uint4 x = *reinterpret_cast<const uint4*>(rows + chunk / kChunks * kRowBytes<D> +
                                                    chunk % kChunks * 16);
    found = found || has_saturated(x.x, x.y) || has_saturated(x.z, x.w);
  }
  if (found) {
    *saturated = 1;
  }
}

/// Four 8 x 8 matrices; lane l has the address of row l % 8 of matrix l / 8, and gets of each the
/// columns 2t and 2t + 1 of row g (lane 4g + t).
__device__ __forceinline__ void load_matrices(std::uint32_t (&words)[4], std::uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(at)
               : "memory");
}

/// Where this lane's row begins when load_matrices() takes two matrices beside each other of eight
/// rows, then two of the eight behind.
template <int D>
__device__ __forceinline__ int matrix_row() {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return (lane / 16 * 8 + lane % 8) * kRowBytes<D> + lane / 8 % 2 * 16;
}

/// The same, each matrix transposed.
__device__ __forceinline__ void load_transposed(std::uint32_t (&words)[4], std::uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(at)
               : "memory");
}

__device__ __forceinline__ float load_float(std::uint32_t at) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(at) : "memory");
  return value;
}

/// c [16, 8] += a [16, 32] b [32, 8], exact; the operands' bytes lie as load_matrices() has them.
__device__ __forceinline__ void multiply_codes(std::int32_t (&c)[4], const std::uint32_t (&a)[4],
                                               std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
      "{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace nibble::ops::cuda::packed
