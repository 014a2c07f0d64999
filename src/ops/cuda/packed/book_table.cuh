#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/packed/book_table.h"

/// Code books in registers.
namespace nibble::ops::cuda {

/// Byte i of the result is looked_up() by bits 4 i to 4 i + 3 of `selectors` in the eight bytes of
/// `low` and `high`; the selectors' upper half is ignored.
__device__ __forceinline__ std::uint32_t permuted(std::uint32_t low, std::uint32_t high,
                                                  std::uint32_t selectors) {
  std::uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selectors));
  return result;
}

/// bits >> kBits as a product, since shifts share a pipe with permutations.
template <int kBits>
__device__ __forceinline__ std::uint32_t shifted_by_product(std::uint32_t bits) {
  std::uint32_t result;
  asm("mul.hi.u32 %0, %1, %2;" : "=r"(result) : "r"(bits), "r"(1u << (32 - kBits)));
  return result;
}

/// The entries of codes 0 to 15 from a row's table (write_parts()).
__device__ __forceinline__ uint4 entries_of_table(const uint4& table) {
  constexpr std::uint32_t kSigns = 0xba98;
  constexpr std::uint32_t kReversed = 0x0123;
  const std::uint32_t z = permuted(table.w, 0, kReversed);
  const std::uint32_t w = permuted(table.z, 0, kReversed);
  return {__vadd4(table.x, permuted(z, 0, kSigns)), __vadd4(table.y, permuted(w, 0, kSigns)),
          __vadd4(z, permuted(table.x, 0, kSigns)), __vadd4(w, permuted(table.y, 0, kSigns))};
}

}  // namespace nibble::ops::cuda
