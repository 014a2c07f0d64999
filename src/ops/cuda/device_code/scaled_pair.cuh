#pragma once

#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

/// Codes that become float16 two at a time.
namespace nibble::ops::cuda {

inline constexpr std::uint32_t kMagic =
    0x64006400;  // float16 1024 twice: with a code in the low bits, 1024 + code

/// Two codes, with kMagic in their high bits, less the zero point (likewise) and times the scale,
/// as float16 that are rounded once.
__device__ __forceinline__ std::uint32_t scaled_pair(std::uint32_t codes, std::uint32_t zero,
                                                     std::uint32_t scale) {
  const __half2 code =
      __hsub2(*reinterpret_cast<const __half2*>(&codes), *reinterpret_cast<const __half2*>(&zero));
  const __half2 value = __hmul2(code, *reinterpret_cast<const __half2*>(&scale));
  return *reinterpret_cast<const std::uint32_t*>(&value);
}

}  // namespace nibble::ops::cuda
