#pragma once

#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "ops/cuda/gemm/weight_fragments.cuh"
#include "ops/cuda/packed/book_table.cuh"

/// Policies (weight_fragments.cuh) of codes of 4 bits that stand for entries of a book.
namespace nibble::ops::cuda {

/// What they share: a book for each row.
struct BookCodes {
  struct Rows {
    uint4 entries[2];  // of rows g and g + 8: 16 signed bytes
  };
  static constexpr int kCodeBytes = 1024;
  __device__ static void load_rows(Rows& to, const GemmArguments& a, int first_row, int lane) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const std::int64_t row = first_row + lane / 4 + 8 * r;
      to.entries[r] = row < a.row_groups * kUnitRows
                          ? entries_of_table(*reinterpret_cast<const uint4*>(a.tables + row * 16))
                          : uint4{};
    }
  }
  // The entries of the four codes in the lower half of `codes`.
  __device__ static std::uint32_t entries_of(const uint4& all, std::uint32_t codes) {
    const std::uint32_t places = codes & 0x7777;
    const std::uint32_t first_half = __byte_perm(all.x, all.y, places);
    const std::uint32_t second_half = __byte_perm(all.z, all.w, places);
    return __byte_perm(first_half, second_half, masked<0x4444u, false>(codes >> 1, 0x3210u));
  }
};

/// Entries of a row's book, as float16 times the scale.
struct HalfFromBook : BookCodes, HalfFragments {
  struct Words {
    uint4 words;
    __half2 scales[2];
  };
  __device__ static void load(Words& to, std::uint32_t tile, int step, int lane,
                              const GemmArguments& a) {
    to.words = words_of(tile, step, lane);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      to.scales[i] = scales_of(tile, kCodeBytes, group_of(a, 2 * step + i, lane), lane / 4);
    }
  }
  __device__ static void expand(Fragments& left, const Words& from, const Rows& rows,
                                const GemmArguments&) {
    const std::uint32_t words[4] = {from.words.x, from.words.y, from.words.z, from.words.w};
    const __half2 shift = bits_half2(0x64806480u);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const HalfPairs lower = half_from_bytes(entries_of(rows.entries[0], words[w]), shift,
                                              __low2half2(from.scales[w / 2]));
      const HalfPairs upper = half_from_bytes(entries_of(rows.entries[1], words[w] >> 16), shift,
                                              __high2half2(from.scales[w / 2]));
      left[w][0] = lower.first;
      left[w][1] = upper.first;
      left[w][2] = lower.second;
      left[w][3] = upper.second;
    }
  }
};

/// Entries of a row's book as INT8. What they are units of goes into the scales, since a tail is in
/// no units.
struct Int8FromBook : BookCodes {
  using Sum = int;
  using Left = Fragments;
  static constexpr int kSteps = 1;
  static constexpr bool kExpands = true;
  struct Rows : BookCodes::Rows {
    float2 units;  // of rows g and g + 8
  };
  struct Words {
    uint4 words[2];
  };
  __device__ static float scale_factor(const GemmArguments&) { return 1.0f; }
  __device__ static void load_rows(Rows& to, const GemmArguments& a, int first_row, int lane) {
    BookCodes::load_rows(to, a, first_row, lane);
    const auto unit = [&](int row) { return row < a.rows ? a.scale_factors[row] : 0.0f; };
    to.units = {unit(first_row + lane / 4), unit(first_row + lane / 4 + 8)};
  }
  __device__ static void load(Words& to, std::uint32_t tile, int, int lane, const GemmArguments&) {
    to.words[0] = words_of(tile, 0, lane);
    to.words[1] = words_of(tile, 1, lane);
  }
  __device__ static void expand(Fragments& left, const Words& from, const Rows& rows,
                                const GemmArguments&) {
    const std::uint32_t words[8] = {from.words[0].x, from.words[0].y, from.words[0].z,
                                    from.words[0].w, from.words[1].x, from.words[1].y,
                                    from.words[1].z, from.words[1].w};
#pragma unroll
    for (int w = 0; w < 8; ++w) {
      left[w / 2][w % 2 * 2] = entries_of(rows.entries[0], words[w]);
      left[w / 2][w % 2 * 2 + 1] = entries_of(rows.entries[1], words[w] >> 16);
    }
  }
};

/// As of other codes.
__device__ __forceinline__ float2 in_units(float2 scales, const Int8FromBook::Rows& rows) {
  return {__fmul_rn(scales.x, rows.units.x), __fmul_rn(scales.y, rows.units.y)};
}

}  // namespace nibble::ops::cuda
