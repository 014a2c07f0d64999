#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/divided/wire_block.h"

/// Blocks in memory that GPUs have lent one another.
namespace nibble::ops::cuda {

/// Writes a block, which arrives at once.
__device__ __forceinline__ void put_block(WireBlock* to, const WireBlock& block) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(block.words[0]),
               "r"(block.words[1]), "r"(block.words[2]), "r"(block.words[3])
               : "memory");
}

/// What is there now.
__device__ __forceinline__ WireBlock look_at_block(const WireBlock* from) {
  WireBlock block;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(block.words[0]), "=r"(block.words[1]), "=r"(block.words[2]),
                 "=r"(block.words[3])
               : "l"(from)
               : "memory");
  return block;
}

inline constexpr int kLooks = 4096;  // for what has to come, before the host is asked

/// Looks again until `block` has come, and leaves zeros where it was; anything where it will not
/// come, as `ended` says (PeerMemory).
__device__ __forceinline__ void take_block(WireBlock* from, WireBlock& block,
                                           const volatile std::int32_t* ended) {
  for (int looks = 0; !has_come(block); ++looks) {
    if (looks == kLooks) {
      looks = 0;
      if (*ended != 0) {
        break;
      }
    }
    block = look_at_block(from);
  }
  *reinterpret_cast<uint4*>(from) = uint4{0, 0, 0, 0};
}

}  // namespace nibble::ops::cuda
