#pragma once

#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "ops/cuda/fp8/wgmma_e4m3.cuh"
#include "ops/cuda/gemm/weight_fragments.cuh"

/// E4M3 codes as fragments (weight_fragments.cuh).
namespace nibble::ops::cuda {

/// As they are. Their words lie as those of INT8 codes.
struct E4m3Codes : Int8Codes {
  using Sum = E4m3Sum;
};

/// Two E4M3 numbers, in bits 8 to 15 of each half of `codes`, as float16 times the scale. As
/// float16 the bits of a magnitude mean 2^-8 times the number (the bias is 15, not 7), subnormals
/// too; NaN is never there.
__device__ __forceinline__ std::uint32_t half2_from_e4m3(std::uint32_t codes, __half2 scale) {
  const __half2 small = bits_half2((codes & 0x80008000u) | ((codes >> 1) & 0x3f803f80u));
  return half2_bits(__hmul2(__hmul2(small, bits_half2(0x5c005c00u)), scale));  // 256
}

/// As float16 times the scale of the row, which is rounded once.
struct HalfFromE4m3 : CodesAlone, HalfFragments {
  static constexpr int kCodeBytes = 2048;
  struct Words {
    uint4 words[2];
    __half2 scales;
  };
  __device__ static void load(Words& to, std::uint32_t tile, int step, int lane,
                              const GemmArguments&) {
    to.words[0] = words_of(tile, 2 * step, lane);
    to.words[1] = words_of(tile, 2 * step + 1, lane);
    to.scales = scales_of(tile, kCodeBytes, 0, lane / 4);
  }
  __device__ static void expand(Fragments& left, const Words& from, const Rows&,
                                const GemmArguments&) {
    expand_bytes(left, from.words, [&](std::uint32_t word, int, bool upper) -> HalfPairs {
      const __half2 scale = upper ? __high2half2(from.scales) : __low2half2(from.scales);
      return {half2_from_e4m3(word << 8, scale), half2_from_e4m3(word, scale)};
    });
  }
};

}  // namespace nibble::ops::cuda
