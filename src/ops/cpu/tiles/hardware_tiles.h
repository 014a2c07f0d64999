#pragma once

#include <cstdint>

#include "ops/cpu/inlining.h"
#include "ops/cpu/tiles/tile_config.h"

namespace nibble::ops::cpu {
namespace {

/// The tile registers of the CPU. The instructions are written in assembly because the intrinsics
/// take the numbers of tiles as text.
struct HardwareTiles {
  static NIBBLE_INLINE void configure(const TileConfig& config) {
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  static NIBBLE_INLINE void release() { asm volatile("tilerelease"); }
  template <int T>
  static NIBBLE_INLINE void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(T));
  }
  template <int T>
  static NIBBLE_INLINE void load(const void* p, std::int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(T) : "memory");
  }
  template <int T>
  static NIBBLE_INLINE void store(void* p, std::int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(p), "r"(stride), "i"(T) : "memory");
  }
  template <int C, int A, int B, bool Signed>
  static NIBBLE_INLINE void multiply() {
    if constexpr (Signed) {
      asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
    } else {
      asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
    }
  }
  template <int C, int A, int B>
  static NIBBLE_INLINE void multiply_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
  }
};

}  // namespace
}  // namespace nibble::ops::cpu
