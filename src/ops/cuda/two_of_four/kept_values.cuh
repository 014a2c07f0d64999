#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/scaled_pair.cuh"
#include "ops/cuda/two_of_four/kept_units.h"

/// The left operands of sparse products that stored codes become.
namespace nibble::ops::cuda {

/// What a lane has of a block, from its words there, the two scales and the two zeros of its rows
/// (kept_units.h): pairs of rows g and g + 8, then both again.
template <int kBits>
__device__ __forceinline__ void kept_values(const std::uint32_t* words, std::uint32_t scales,
                                            std::uint32_t zeros, std::uint32_t (&a)[kKeptPairs]) {
  if constexpr (kBits == 16) {
#pragma unroll
    for (int i = 0; i < kKeptPairs; ++i) {
      a[i] = words[i];
    }
  } else {
    constexpr int kEach = kKeptPairs / KeptForm{kBits}.words();  // pairs of a word
    constexpr std::uint32_t kCode = ((1u << kBits) - 1) * 0x10001u;
    const std::uint32_t scale[2] = {__byte_perm(scales, 0, 0x1010), __byte_perm(scales, 0, 0x3232)};
    const std::uint32_t zero[2] = {kMagic + (zeros & 0xffu) * 0x10001u,
                                   kMagic + (zeros >> 8) * 0x10001u};
#pragma unroll
    for (int i = 0; i < kKeptPairs; ++i) {
      const std::uint32_t pair = (words[i / kEach] >> (i % kEach * kBits) & kCode) | kMagic;
      a[i] = scaled_pair(pair, zero[i % 2], scale[i % 2]);
    }
  }
}

/// The same of a block of INT8 products: four codes of rows g and g + 8, then both again.
template <int kBits>
__device__ __forceinline__ void kept_integers(const std::uint32_t* words, std::uint32_t zeros,
                                              std::uint32_t (&a)[kKeptPairs]) {
#pragma unroll
  for (int i = 0; i < kKeptPairs; ++i) {
    if constexpr (kBits == 8) {
      a[i] = words[i];
    } else {
      constexpr std::uint32_t kCodes = 0x0f0f0f0f;
      constexpr std::uint32_t kHighest = 0x80808080;  // 128 + code - zero does not borrow
      const std::uint32_t zero = (i % 2 == 0 ? zeros & 0xffu : zeros >> 8) * 0x01010101u;
      a[i] = (((words[i / 2] >> (i % 2 * 4) & kCodes) | kHighest) - zero) ^ kHighest;
    }
  }
}

}  // namespace nibble::ops::cuda
