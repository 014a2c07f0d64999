#pragma once

#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "ops/cuda/gemm/gemm_arguments.h"
#include "ops/cuda/packed/unit_format.h"

/// From packed units in shared memory to tensor-core fragments in registers. Each policy gives one
/// warp the left fragments of 16 rows and 128 bytes of k, as four products of 32 bytes:
///   Sum     what products are summed in
///   Left    the fragments of a step, which multiply_step() takes
///   kSteps  steps of 128 bytes in a unit of 128 k
///   kExpands  whether words are not fragments as they are
///   Rows    what a lane keeps of its two rows, g and g + 8, for a whole tile
///   load    reads the words of a step from a tile of 16 rows
///   expand  makes fragments of them
namespace nibble::ops::cuda {

using Fragments = std::uint32_t[4][4];  // [product][register]

__device__ __forceinline__ std::uint32_t half2_bits(__half2 value) {
  return *reinterpret_cast<const std::uint32_t*>(&value);
}
__device__ __forceinline__ __half2 bits_half2(std::uint32_t bits) {
  return *reinterpret_cast<const __half2*>(&bits);
}

/// 16 bytes of each lane, of a tile at a 32-bit address of shared memory.
__device__ __forceinline__ uint4 words_of(std::uint32_t tile, int number, int lane) {
  uint4 words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(tile + number * 512 + lane * 16));
  return words;
}

/// The group of a lane's inputs among the 32 k number h of a unit: 16 of them have two lanes.
__device__ __forceinline__ int group_of(const GemmArguments& a, int h, int lane) {
  return (2 * h + lane % 4 / 2) >> a.group_shift;
}
__device__ __forceinline__ int groups_of_unit(const GemmArguments& a) {
  return 8 >> a.group_shift;
}

/// The scales of rows g and g + 8 of a group: the lower and the upper half.
__device__ __forceinline__ __half2 scales_of(std::uint32_t tile, int code_bytes, int group, int g) {
  std::uint32_t bits;
  asm volatile("ld.shared.u32 %0, [%1];"
               : "=r"(bits)
               : "r"(tile + code_bytes + group * 32 + g * 4));
  return bits_half2(bits);
}

/// Their shifts, which follow all scales.
__device__ __forceinline__ __half2 shifts_of(std::uint32_t tile, int code_bytes, int groups,
                                             int group, int g) {
  return scales_of(tile, code_bytes, groups + group, g);
}

/// Their zeros, which follow all scales: bits 0 to 7 and 8 to 15.
__device__ __forceinline__ std::uint32_t zeros_of(std::uint32_t tile, int code_bytes, int groups,
                                                  int group, int g) {
  std::uint16_t bits;
  asm volatile("ld.shared.u16 %0, [%1];"
               : "=h"(bits)
               : "r"(tile + code_bytes + groups * 32 + group * 16 + g * 2));
  return bits;
}

/// The scales of rows g and g + 8 of a tile in global memory.
__device__ __forceinline__ __half2 global_scales_of(const std::uint8_t* tile, int code_bytes,
                                                    int g) {
  return *reinterpret_cast<const __half2*>(tile + code_bytes + g * 4);
}

/// Their zeros in a unit of one group, as zeros_of() has them.
__device__ __forceinline__ std::uint32_t global_zeros_of(const std::uint8_t* tile, int code_bytes,
                                                         int g) {
  return *reinterpret_cast<const std::uint16_t*>(tile + code_bytes + 32 + g * 2);
}

/// (bits & mask) | or ^ (kExclusive) added, in one instruction: the compiler would take two.
template <std::uint32_t kMask, bool kExclusive>
__device__ __forceinline__ std::uint32_t masked(std::uint32_t bits, std::uint32_t added) {
  constexpr int kTable = kExclusive ? (0xf0 & 0xcc) ^ 0xaa : (0xf0 & 0xcc) | 0xaa;
  std::uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, %4;"
      : "=r"(result)
      : "r"(bits), "r"(kMask), "r"(added), "n"(kTable));
  return result;
}

/// Policies that keep nothing of their rows.
struct CodesAlone {
  struct Rows {};
  __device__ static void load_rows(Rows&, const GemmArguments&, int, int) {}
};

/// What sums of a group are multiplied by, from the numbers that its scales are.
__device__ __forceinline__ float2 in_units(float2 scales, const CodesAlone::Rows&) {
  return scales;
}

/// Policies whose fragments are float16.
struct HalfFragments {
  using Sum = float;
  using Left = Fragments;
  static constexpr int kSteps = 2;
  static constexpr bool kExpands = true;
};

/// Four values of a row as float16: i = 0, 1 and i = 2, 3 (unit_format.h).
struct HalfPairs {
  std::uint32_t first;
  std::uint32_t second;
};

/// The fragments of a step of 8-bit codes: `convert(word, i, upper)` has those of one of the two
/// rows, of the 32 k number i.
template <class Convert>
__device__ __forceinline__ void expand_bytes(Fragments& left, const uint4 (&from)[2],
                                             Convert&& convert) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t words[4] = {from[i].x, from[i].y, from[i].z, from[i].w};
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const HalfPairs pairs = convert(words[r], i, r % 2 == 1);
      left[2 * i + r / 2][r % 2] = pairs.first;
      left[2 * i + r / 2][r % 2 + 2] = pairs.second;
    }
  }
}

/// INT8 codes as they are.
struct Int8Codes : CodesAlone {
  using Sum = int;
  using Left = Fragments;
  static constexpr int kSteps = 1;
  static constexpr bool kExpands = false;
  static constexpr int kCodeBytes = 2048;
  struct Words {
    uint4 words[4];
  };
  __device__ static float scale_factor(const GemmArguments&) { return 1.0f; }
  __device__ static void load(Words& to, std::uint32_t tile, int, int lane, const GemmArguments&) {
#pragma unroll
    for (int h = 0; h < 4; ++h) {
      to.words[h] = words_of(tile, h, lane);
    }
  }
  __device__ static void expand(Fragments& left, const Words& from, const Rows&,
                                const GemmArguments&) {
#pragma unroll
    for (int h = 0; h < 4; ++h) {
      left[h][0] = from.words[h].x;
      left[h][1] = from.words[h].y;
      left[h][2] = from.words[h].z;
      left[h][3] = from.words[h].w;
    }
  }
};

/// 4-bit codes as INT8: 16 (q - 8), or q - zero where asymmetric.
struct Int4Codes : CodesAlone {
  using Sum = int;
  using Left = Fragments;
  static constexpr int kSteps = 1;
  static constexpr bool kExpands = true;
  static constexpr int kCodeBytes = 1024;
  struct Words {
    uint4 words[2];
    std::uint32_t zeros = 0;
  };
  /// What the scales are multiplied by.
  __device__ static float scale_factor(const GemmArguments& a) {
    return a.offset == GroupOffset::kZero ? 1.0f : 0.0625f;
  }
  __device__ static void load(Words& to, std::uint32_t tile, int, int lane,
                              const GemmArguments& a) {
    to.words[0] = words_of(tile, 0, lane);
    to.words[1] = words_of(tile, 1, lane);
    if (a.offset == GroupOffset::kZero) {
      to.zeros = zeros_of(tile, kCodeBytes, 1, 0, lane / 4);
    }
  }
  __device__ static void expand(Fragments& left, const Words& from, const Rows&,
                                const GemmArguments& a) {
    const std::uint32_t words[8] = {from.words[0].x, from.words[0].y, from.words[0].z,
                                    from.words[0].w, from.words[1].x, from.words[1].y,
                                    from.words[1].z, from.words[1].w};
    if (a.offset == GroupOffset::kZero) {
      const std::uint32_t low = (from.zeros & 0xff) * 0x01010101u;
      const std::uint32_t high = (from.zeros >> 8) * 0x01010101u;
#pragma unroll
      for (int w = 0; w < 8; ++w) {
        // 128 + q - zero does not borrow from the next byte.
        left[w / 2][w % 2 * 2] =
            (masked<0x0f0f0f0fu, false>(words[w], 0x80808080u) - low) ^ 0x80808080u;
        left[w / 2][w % 2 * 2 + 1] =
            (masked<0x0f0f0f0fu, true>(words[w] >> 4, 0x88888888u) - high) ^ 0x80808080u;
      }
      return;
    }
#pragma unroll
    for (int w = 0; w < 8; ++w) {
      left[w / 2][w % 2 * 2] = masked<0xf0f0f0f0u, true>(words[w] << 4, 0x80808080u);
      left[w / 2][w % 2 * 2 + 1] = words[w] & 0xf0f0f0f0u;  // signed already
    }
  }
};

/// The values of codes of a group's rows: q - zero exactly, then times the scale, and with shifts
/// plus the shift, rounded once. The pair is of one row.
template <GroupOffset kOffset>
__device__ __forceinline__ __half2 scaled(__half2 value, __half2 scale, __half2 shift) {
  if constexpr (kOffset == GroupOffset::kShift) {
    return __hfma2(value, scale, shift);
  }
  return __hmul2(value, scale);
}

/// 4-bit codes as float16. But for kZero the zero is 8.
template <GroupOffset kOffset>
struct HalfFromInt4 : CodesAlone, HalfFragments {
  static constexpr int kCodeBytes = 1024;
  struct Words {
    uint4 words;
    __half2 scales[2];  // of the two 32 k of a step
    __half2 shifts[2];
    std::uint32_t zeros[2];
  };
  __device__ static void load(Words& to, std::uint32_t tile, int step, int lane,
                              const GemmArguments& a) {
    to.words = words_of(tile, step, lane);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int group = group_of(a, 2 * step + i, lane);
      to.scales[i] = scales_of(tile, kCodeBytes, group, lane / 4);
      to.zeros[i] = 0x0808;
      if constexpr (kOffset == GroupOffset::kZero) {
        to.zeros[i] = zeros_of(tile, kCodeBytes, groups_of_unit(a), group, lane / 4);
      }
      if constexpr (kOffset == GroupOffset::kShift) {
        to.shifts[i] = shifts_of(tile, kCodeBytes, groups_of_unit(a), group, lane / 4);
      }
    }
  }
  __device__ static void expand(Fragments& left, const Words& from, const Rows&,
                                const GemmArguments&) {
    const std::uint32_t words[4] = {from.words.x, from.words.y, from.words.z, from.words.w};
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      // As float16, 0x6400 + n is 1024 + n: for row g 1024 + q, for row g + 8 1024 + 16 q.
      constexpr std::uint32_t kThousand = 0x64006400;
      const std::uint32_t zeros = from.zeros[w / 2];
      const __half2 zero = bits_half2((zeros & 0xff) * 0x00010001u + kThousand);
      const __half2 upper_zero = __hsub2(bits_half2(0x63806380u),  // 960 - (1024 + zero)
                                         bits_half2((zeros >> 8) * 0x00010001u + kThousand));
      const __half2 scale = __low2half2(from.scales[w / 2]);
      const __half2 upper_scale = __high2half2(from.scales[w / 2]);
      const __half2 shift = __low2half2(from.shifts[w / 2]);
      const __half2 upper_shift = __high2half2(from.shifts[w / 2]);
      const __half2 sixteenth = bits_half2(0x2c002c00u);
      const auto lower = [&](std::uint32_t bits) {
        const __half2 code = bits_half2(masked<0x000f000fu, false>(bits, kThousand));
        return half2_bits(scaled<kOffset>(__hsub2(code, zero), scale, shift));
      };
      const auto upper = [&](std::uint32_t bits) {
        const __half2 code = bits_half2(masked<0x00f000f0u, true>(bits, kThousand ^ 0x00800080u));
        return half2_bits(
            scaled<kOffset>(__hfma2(code, sixteenth, upper_zero), upper_scale, upper_shift));
      };
      left[w][0] = lower(words[w]);
      left[w][1] = upper(words[w]);
      left[w][2] = lower(words[w] >> 8);
      left[w][3] = upper(words[w] >> 8);
    }
  }
};

/// Signed bytes as float16 less `zero`, scaled: of the four bytes of a word, i = 0, 1 and i = 2, 3.
template <GroupOffset kOffset = GroupOffset::kNone>
__device__ __forceinline__ HalfPairs half_from_bytes(std::uint32_t bytes, __half2 zero,
                                                     __half2 scale, __half2 shift = {}) {
  // As float16, 0x6480 ^ byte is 1024 + 128 + the signed byte.
  const auto convert = [&](std::uint32_t bits) {
    const __half2 shifted = bits_half2(masked<0x00ff00ffu, true>(bits, 0x64806480u));
    return half2_bits(scaled<kOffset>(__hsub2(shifted, zero), scale, shift));
  };
  return {convert(bytes), convert(bytes >> 8)};
}

/// 8-bit codes as float16. But for kZero the zero is 128.
template <GroupOffset kOffset>
struct HalfFromInt8 : CodesAlone, HalfFragments {
  static constexpr int kCodeBytes = 2048;
  struct Words {
    uint4 words[2];
    __half2 scales[2];
    __half2 shifts[2];
    std::uint32_t zeros[2];
  };
  __device__ static void load(Words& to, std::uint32_t tile, int step, int lane,
                              const GemmArguments& a) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int group = group_of(a, 2 * step + i, lane);
      to.words[i] = words_of(tile, 2 * step + i, lane);
      to.scales[i] = scales_of(tile, kCodeBytes, group, lane / 4);
      to.zeros[i] = 0x8080;
      if constexpr (kOffset == GroupOffset::kZero) {
        to.zeros[i] = zeros_of(tile, kCodeBytes, groups_of_unit(a), group, lane / 4);
      }
      if constexpr (kOffset == GroupOffset::kShift) {
        to.shifts[i] = shifts_of(tile, kCodeBytes, groups_of_unit(a), group, lane / 4);
      }
    }
  }
  __device__ static void expand(Fragments& left, const Words& from, const Rows&,
                                const GemmArguments&) {
    expand_bytes(left, from.words, [&](std::uint32_t word, int i, bool upper) {
      const std::uint32_t zero = upper ? from.zeros[i] >> 8 : from.zeros[i] & 0xff;
      return half_from_bytes<kOffset>(
          word, bits_half2(zero * 0x00010001u + 0x64006400u),
          upper ? __high2half2(from.scales[i]) : __low2half2(from.scales[i]),
          upper ? __high2half2(from.shifts[i]) : __low2half2(from.shifts[i]));
    });
  }
};

}  // namespace nibble::ops::cuda
