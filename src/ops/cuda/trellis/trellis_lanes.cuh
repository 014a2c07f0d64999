#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_fp16.h>

#include "formats/trellis/trellis_value.h"
#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/trellis/trellis_units.h"

/// How a warp turns units of trellis codes into operands of tensor cores.
namespace nibble::ops::cuda {

/// The book as an argument of a kernel.
struct TrellisBook {
  std::int8_t values[256];
};
inline TrellisBook trellis_book() {
  TrellisBook book{};
  for (std::size_t i = 0; i < formats::kTrellisBook.size(); ++i) {
    book.values[i] = formats::kTrellisBook[i];
  }
  return book;
}

/// The book in shared memory: row h has value h for every lane in its own bank. First all rows as
/// the lower float16 of a word, then all as the upper.
inline constexpr int kBookRowBytes = kTrellisLanes * 4;
inline constexpr int kUpperBytes = 256 * kBookRowBytes;  // where the latter begin
inline constexpr int kBookBytes = 2 * kUpperBytes;

/// All threads of the block call it, and wait before they read it.
__device__ __forceinline__ void fill_book(const TrellisBook& book, std::byte* table) {
  constexpr int kPieces = kBookRowBytes / static_cast<int>(sizeof(uint4));
  constexpr int kHalf = 256 * kPieces;
  for (int i = static_cast<int>(threadIdx.x); i < 2 * kHalf; i += static_cast<int>(blockDim.x)) {
    const std::uint32_t half = __half_as_ushort(__int2half_rn(book.values[i % kHalf / kPieces]));
    const std::uint32_t word = i < kHalf ? half : half << 16;
    reinterpret_cast<uint4*>(table)[i] = make_uint4(word, word, word, word);
  }
}

/// The word of a state, whose upper bits are others', in the lane's bank: the dot product takes the
/// hash, the second byte of the product, times the bytes of a row.
template <int kFrom>
__device__ __forceinline__ std::uint32_t look_up(std::uint32_t state, std::uint32_t bank) {
  static_assert(kBookRowBytes < 256, "a row's bytes are a byte");
  const std::uint32_t at = __dp4a(state * formats::kTrellisMultiplier,
                                  static_cast<std::uint32_t>(kBookRowBytes) << 8, bank);
  std::uint32_t word;
  asm volatile("ld.shared.u32 %0, [%1 + %2];" : "=r"(word) : "r"(at), "n"(kFrom));
  return word;
}

/// A lane's words of a unit.
template <int kBits>
struct LaneRuns {
  std::uint32_t words[kBits];

  __device__ __forceinline__ void load(const std::uint32_t* unit, int lane) {
    const std::uint32_t* const from = unit + trellis_word_at(kBits, lane, 0);
    if constexpr (kBits == 4) {
      asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                   : "l"(from));
    } else if constexpr (kBits == 2) {
      asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];"
                   : "=r"(words[0]), "=r"(words[1])
                   : "l"(from));
    } else {
#pragma unroll
      for (int i = 0; i < kBits; ++i) {
        asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];"
                     : "=r"(words[i])
                     : "l"(from + i * kTrellisLanes));
      }
    }
  }
};

/// Eight values of a run: those of even numbers in the lower half of a word, the others in the
/// upper, and zeros beside them.
struct LaneValues {
  std::uint32_t words[kLaneWeights];

  /// The left operand of a product.
  __device__ __forceinline__ void operand(std::uint32_t (&a)[4]) const {
    a[0] = words[0] | words[1];
    a[1] = words[4] | words[5];
    a[2] = words[2] | words[3];
    a[3] = words[6] | words[7];
  }
};

/// use(run, LaneValues) for the four runs of a unit. All lanes of a warp call it.
template <int kBits, typename Use>
__device__ __forceinline__ void for_each_run(const LaneRuns<kBits>& lane_runs, int lane,
                                             const std::byte* table, const Use& use) {
  const int next = next_along_circle(lane);
  const auto bank = static_cast<std::uint32_t>(__cvta_generic_to_shared(table)) +
                    static_cast<std::uint32_t>(lane) * 4;
  std::uint32_t heads[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    heads[i] = __shfl_sync(kAllLanes, head_bits<kBits>(lane_runs.words, i), next);
  }
#pragma unroll
  for (int run = 0; run < kUnitRuns; ++run) {
    const auto window = LaneWindow<kBits>::of(lane_runs.words, run, heads[run / 2]);
    LaneValues values;
#pragma unroll
    for (int i = 0; i < kLaneWeights; ++i) {
      values.words[i] = i % 2 == 0 ? look_up<0>(window.state(i), bank)
                                   : look_up<kUpperBytes>(window.state(i), bank);
    }
    use(run, values);
  }
}

}  // namespace nibble::ops::cuda
