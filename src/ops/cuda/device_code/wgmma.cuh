#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/wgmma_registers.h"

/// Matrix products of a warpgroup, four warps (PTX ISA, wgmma; sm_90a only). They run on their own:
/// registers that a product reads or writes may not be touched before wait_products() says that it
/// has ended.
///
/// The left operand is 64 rows by 32 bytes of k in registers: warp w holds rows 16 w .. 16 w + 15
/// as one fragment of mma.m16n8k32 (INT8) or mma.m16n8k16 (float16). The right operand lies in
/// shared memory, as rows (columns of the product) of 128 bytes in the 128-byte swizzle. The
/// product is 64 x kColumns: value 4 j + 2 r + c of lane 4 g + t of warp w is row 16 w + 8 r + g,
/// column 8 j + 2 t + c.
namespace nibble::ops::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Gives each thread of the warpgroup kCount registers, fewer or (if kMore) more than it has.
template <int kCount, bool kMore>
__device__ __forceinline__ void set_registers() {
  if constexpr (kMore) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
  }
}

/// The threads of the warpgroup meet, each warpgroup by itself.
__device__ __forceinline__ void meet_in_warpgroup() {
  asm volatile("bar.sync %0, 128;" ::"r"(static_cast<int>(threadIdx.x) / 128) : "memory");
}

/// Has the compiler compute a value here and not later, between products.
template <typename T>
__device__ __forceinline__ void settle(T& value) {
  asm volatile("" : "+r"(value));
}

__device__ __forceinline__ void settle(float& value) {
  asm volatile("" : "+f"(value));
}

/// After wait_products(): has sums read here and not before.
template <typename Sum, int kCount>
__device__ __forceinline__ void settle_all(Sum (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    settle(sums[i]);
  }
}

/// Before the first product, and after registers of a product were written otherwise.
__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/// Closes a group of products.
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until at most kPending groups are not yet done.
template <int kPending>
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Describes a right operand that begins at `address`, a multiple of 1024: eight rows are 1024
/// bytes. 32 bytes further along k, the description is greater by 2.
__device__ __forceinline__ std::uint64_t describe_operand(std::uint32_t address) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
  constexpr std::uint64_t kEightRows = std::uint64_t{1024 / 16} << 32;
  constexpr std::uint64_t kUnused = std::uint64_t{1} << 16;
  return kSwizzle128 | kEightRows | kUnused | ((address & 0x3ffff) >> 4);
}

/// The same without swizzle: 8 rows by 16 bytes that lie together are a matrix of 128 bytes. It is
/// `along_k` bytes to the next one along k, `along_columns` to that of the next eight columns of
/// the product. Where rows of the operand are k (kRowsAreK), a matrix has 8 of them by 8 columns.
__device__ __forceinline__ std::uint64_t describe_matrices(std::uint32_t address, int along_k,
                                                           int along_columns) {
  const auto lead = static_cast<std::uint64_t>(along_k / 16) << 16;
  const auto stride = static_cast<std::uint64_t>(along_columns / 16) << 32;
  return stride | lead | ((address & 0x3ffff) >> 4);
}

/// sums = left x right, plus what sums was where `add`: INT8, or float16. kRowsAreK: the right
/// operand has rows of k.
#define NIBBLE_INT_SUM(i) "+r"(sums[i])
#define NIBBLE_FLOAT_SUM(i) "+f"(sums[i])
#define NIBBLE_MULTIPLY_INT8(columns, count, l0, l1, l2, l3, right_, added, more)             \
  __device__ __forceinline__ void multiply(int(&sums)[count], const std::uint32_t(&left)[4],  \
                                           std::uint64_t right, bool add) {                   \
    asm volatile(                                                                             \
        NIBBLE_WGMMA_TEXT(#columns "k32.s32.s8.s8", count, l0, l1, l2, l3, right_, added, "") \
        : NIBBLE_SUMS_##count(NIBBLE_INT_SUM)                                                 \
        : NIBBLE_WGMMA_OPERANDS);                                                             \
  }
#define NIBBLE_MULTIPLY_HALF(columns, count, l0, l1, l2, l3, right_, added, more)              \
  template <bool kRowsAreK = false>                                                            \
  __device__ __forceinline__ void multiply(float(&sums)[count], const std::uint32_t(&left)[4], \
                                           std::uint64_t right, bool add) {                    \
    asm volatile(NIBBLE_WGMMA_TEXT(#columns "k16.f32.f16.f16", count, l0, l1, l2, l3, right_,  \
                                   added, ", 1, 1, %" #more)                                   \
                 : NIBBLE_SUMS_##count(NIBBLE_FLOAT_SUM)                                       \
                 : NIBBLE_WGMMA_OPERANDS, "n"(kRowsAreK ? 1 : 0));                             \
  }

/// The same where two of each four inputs of the left operand are kept: 64 rows, and 64 bytes of k
/// of the right operand. `left` and `indices` of each warp are those of 16 rows as mma_sparse.cuh
/// has them.
#define NIBBLE_MULTIPLY_KEPT_HALF(columns, count, l0, l1, l2, l3, right_, added, more)         \
  template <int kPair>                                                                         \
  __device__ __forceinline__ void multiply_kept(                                               \
      float(&sums)[count], const std::uint32_t(&left)[4], std::uint32_t indices,               \
      std::uint64_t right, bool add) {                                                         \
    if constexpr (kPair == 0) {                                                                \
      asm volatile(NIBBLE_SPARSE_WGMMA_TEXT(#columns "k32.f32.f16.f16", count, l0, l1, l2, l3, \
                                            right_, added, more, "0", ", 1, 1, 0")             \
                   : NIBBLE_SUMS_##count(NIBBLE_FLOAT_SUM)                                     \
                   : NIBBLE_WGMMA_OPERANDS, "r"(indices));                                     \
    } else {                                                                                   \
      asm volatile(NIBBLE_SPARSE_WGMMA_TEXT(#columns "k32.f32.f16.f16", count, l0, l1, l2, l3, \
                                            right_, added, more, "1", ", 1, 1, 0")             \
                   : NIBBLE_SUMS_##count(NIBBLE_FLOAT_SUM)                                     \
                   : NIBBLE_WGMMA_OPERANDS, "r"(indices));                                     \
    }                                                                                          \
  }
#define NIBBLE_MULTIPLY_KEPT_INT8(columns, count, l0, l1, l2, l3, right_, added, more)             \
  __device__ __forceinline__ void multiply_kept(int(&sums)[count], const std::uint32_t(&left)[4],  \
                                                std::uint32_t indices, std::uint64_t right,        \
                                                bool add) {                                        \
    asm volatile(NIBBLE_SPARSE_WGMMA_TEXT(#columns "k64.s32.s8.s8", count, l0, l1, l2, l3, right_, \
                                          added, more, "0", "")                                    \
                 : NIBBLE_SUMS_##count(NIBBLE_INT_SUM)                                             \
                 : NIBBLE_WGMMA_OPERANDS, "r"(indices));                                           \
  }
NIBBLE_EACH_WGMMA(NIBBLE_MULTIPLY_KEPT_HALF)
NIBBLE_EACH_WGMMA(NIBBLE_MULTIPLY_KEPT_INT8)
NIBBLE_EACH_WGMMA(NIBBLE_MULTIPLY_INT8)
NIBBLE_EACH_WGMMA(NIBBLE_MULTIPLY_HALF)

#endif

}  // namespace nibble::ops::cuda
