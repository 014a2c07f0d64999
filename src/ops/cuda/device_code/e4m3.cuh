#pragma once

#include <cstdint>

#include <cuda_fp16.h>

namespace nibble::ops::cuda {

/// Two float16 of two E4M3 (core/float8.h) in the low half of a word; exact, NaN stays NaN.
__device__ __forceinline__ std::uint32_t halves_of_e4m3(std::uint32_t codes) {
#if __CUDA_ARCH__ >= 890
  std::uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<std::uint16_t>(codes)));
  return halves;
#else
  // Magnitudes stand as float16 of 2^-8 times the number (its bias is 15, not 7).
  const std::uint32_t spread = __byte_perm(codes, 0, 0x4140);
  const std::uint32_t magnitudes = spread & 0x007f007fu;
  const std::uint32_t nan = (magnitudes + 0x00010001u) & 0x00800080u;
  // 0xf8 * 0x80 is the exponent of NaN.
  const std::uint32_t bits = (spread & 0x00800080u) << 8 | magnitudes << 7 | nan * 0xf8u;
  const __half2 halves = __hmul2(*reinterpret_cast<const __half2*>(&bits),
                                 __half2half2(__ushort_as_half(0x5c00)));  // 256
  return *reinterpret_cast<const std::uint32_t*>(&halves);
#endif
}

}  // namespace nibble::ops::cuda
