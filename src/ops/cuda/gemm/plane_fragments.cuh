#pragma once

#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "ops/cuda/gemm/book_fragments.cuh"
#include "ops/cuda/packed/plane_words.cuh"

/// Policies (weight_fragments.cuh) of codes of 3 and 2 bits in planes: they become words of
/// nibbles, and then what those of 4 bits become. One kernel serves both numbers of bits, since
/// where many tokens share a decoded weight the instructions for third bits that are not there are
/// few.
namespace nibble::ops::cuda {

__device__ __forceinline__ bool has_third_bits(const GemmArguments& a) {
  return a.code_bytes > 512;
}

/// What a lane has of 64 inputs.
struct PlanesOfStep {
  uint2 lows;
  std::uint32_t thirds = 0;

  __device__ void load(std::uint32_t tile, int step, int lane, const GemmArguments& a) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                 : "=r"(lows.x), "=r"(lows.y)
                 : "r"(tile + lane * 16 + step * 8));
    if (has_third_bits(a)) {
      asm volatile("ld.shared.u32 %0, [%1];"
                   : "=r"(thirds)
                   : "r"(tile + 512 + lane * 8 + step * 4));
    }
  }
  /// Word 2 (h % 2) + e of nibbles.
  __device__ std::uint32_t nibbles(int word) const {
    return plane_nibbles<3>(word < 2 ? lows.x : lows.y, thirds, word / 2, word % 2);
  }
};

/// Integers.
template <bool kZeros>
struct HalfFromPlanes : CodesAlone, HalfFragments {
  struct Words {
    PlanesOfStep planes;
    __half2 scales[2];  // of the two 32 k of a step
    std::uint32_t zeros[2];
  };
  __device__ static void load(Words& to, std::uint32_t tile, int step, int lane,
                              const GemmArguments& a) {
    to.planes.load(tile, step, lane, a);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int group = group_of(a, 2 * step + i, lane);
      to.scales[i] = scales_of(tile, a.code_bytes, group, lane / 4);
      to.zeros[i] = has_third_bits(a) ? 0x0404 : 0x0202;
      if constexpr (kZeros) {
        to.zeros[i] = zeros_of(tile, a.code_bytes, groups_of_unit(a), group, lane / 4);
      }
    }
  }
  __device__ static void expand(Fragments& left, const Words& from, const Rows& rows,
                                const GemmArguments& a) {
    constexpr std::uint32_t kTurned = 0x80808080u;  // rows g + 8 of 4-bit codes
    using Nibbles = HalfFromInt4<kZeros ? GroupOffset::kZero : GroupOffset::kNone>;
    typename Nibbles::Words words;
    words.words = {from.planes.nibbles(0) ^ kTurned, from.planes.nibbles(1) ^ kTurned,
                   from.planes.nibbles(2) ^ kTurned, from.planes.nibbles(3) ^ kTurned};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      words.scales[i] = from.scales[i];
      words.zeros[i] = from.zeros[i];
    }
    Nibbles::expand(left, words, rows, a);
  }
};

/// Entries of books.
struct HalfFromPlaneBook : HalfFragments {
  using Nibbles = HalfFromBook;
  using Rows = Nibbles::Rows;
  struct Words {
    PlanesOfStep planes;
    __half2 scales[2];
  };
  __device__ static void load_rows(Rows& to, const GemmArguments& a, int first_row, int lane) {
    Nibbles::load_rows(to, a, first_row, lane);
  }
  __device__ static void load(Words& to, std::uint32_t tile, int step, int lane,
                              const GemmArguments& a) {
    to.planes.load(tile, step, lane, a);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      to.scales[i] = scales_of(tile, a.code_bytes, group_of(a, 2 * step + i, lane), lane / 4);
    }
  }
  __device__ static void expand(Fragments& left, const Words& from, const Rows& rows,
                                const GemmArguments& a) {
    Nibbles::Words words;
    words.words = {from.planes.nibbles(0), from.planes.nibbles(1), from.planes.nibbles(2),
                   from.planes.nibbles(3)};
    words.scales[0] = from.scales[0];
    words.scales[1] = from.scales[1];
    Nibbles::expand(left, words, rows, a);
  }
};

}  // namespace nibble::ops::cuda
