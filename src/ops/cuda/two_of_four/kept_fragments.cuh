#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/wgmma.cuh"
#include "ops/cuda/gemm/weight_fragments.cuh"
#include "ops/cuda/two_of_four/kept_values.cuh"

/// Units of kept weights (kept_units.h) as fragments of the kernel for sm_90a: policies of
/// weight_fragments.cuh.
namespace nibble::ops::cuda {

/// 64 inputs of 16 rows: two blocks.
struct KeptFragments {
  std::uint32_t blocks[2][kKeptPairs];
  std::uint32_t indices;
};

/// 128 inputs of 16 rows: two blocks of INT8 products.
struct KeptIntegerFragments {
  std::uint32_t blocks[kIntegerBlocks][kKeptPairs];
  std::uint32_t indices[kIntegerBlocks];
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// As that of dense fragments (multiply_step.cuh), by sparse products.
template <int kSums>
__device__ __forceinline__ void multiply_step(float (&sums)[kSums], KeptFragments& left,
                                              std::uint32_t right, bool add) {
  const std::uint64_t description = describe_operand(right);
  settle(left.indices);
#pragma unroll
  for (int i = 0; i < 2 * kKeptPairs; ++i) {
    settle(left.blocks[i / kKeptPairs][i % kKeptPairs]);
  }
  begin_products();
  multiply_kept<0>(sums, left.blocks[0], left.indices, description, add);
  multiply_kept<1>(sums, left.blocks[1], left.indices, description + 4, true);
  commit_products();
}

template <int kSums>
__device__ __forceinline__ void multiply_step(int (&sums)[kSums], KeptIntegerFragments& left,
                                              std::uint32_t right, bool add) {
  const std::uint64_t description = describe_operand(right);
#pragma unroll
  for (int block = 0; block < kIntegerBlocks; ++block) {
    settle(left.indices[block]);
#pragma unroll
    for (int i = 0; i < kKeptPairs; ++i) {
      settle(left.blocks[block][i]);
    }
  }
  begin_products();
#pragma unroll
  for (int block = 0; block < kIntegerBlocks; ++block) {
    multiply_kept(sums, left.blocks[block], left.indices[block], description + 4 * block,
                  add || block > 0);
  }
  commit_products();
}

#endif

/// Reads kCount words of a lane from number `first` on, 2 or 4 n.
template <int kCount>
__device__ __forceinline__ void load_words(std::uint32_t (&to)[kCount], std::uint32_t unit,
                                           int first, int lane) {
  const std::uint32_t at = unit + kept_word_at(lane, first);
  if constexpr (kCount == 2) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(at));
  } else {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(to[i]), "=r"(to[i + 1]), "=r"(to[i + 2]), "=r"(to[i + 3])
                   : "r"(at + i / 4 * kKeptLanes * 16));
    }
  }
}

__device__ __forceinline__ std::uint32_t load_word(std::uint32_t address) {
  std::uint32_t word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address));
  return word;
}

/// A copy in a register of its own, made here: what was loaded ahead may not lie in a register that
/// a product under way still reads.
__device__ __forceinline__ std::uint32_t copied(std::uint32_t word) {
  std::uint32_t copy;
  asm volatile("prmt.b32 %0, %1, %1, 0x3210;" : "=r"(copy) : "r"(word));
  return copy;
}

/// Two zeros, those of rows g and g + 8.
__device__ __forceinline__ std::uint32_t load_zeros(std::uint32_t address) {
  std::uint16_t zeros;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(zeros) : "r"(address));
  return zeros;
}

/// For float16 products, of form {kBits, kScales}. Inputs are in their own order.
template <int kBits, int kScales>
struct KeptCodes : CodesAlone {
  using Sum = float;
  using Left = KeptFragments;
  static constexpr int kSteps = 2;
  static constexpr bool kExpands = true;
  static constexpr KeptForm kForm{kBits, kScales};
  static constexpr int kWords = 2 * kForm.words();  // of a step
  static constexpr int kParts = kScales == kKeptBlocks ? 2 : 1;
  struct Words {
    std::uint32_t codes[kWords];
    std::uint32_t indices;
    std::uint32_t scales[kParts];
    std::uint32_t zeros[kParts];
  };

  __device__ static void load(Words& to, std::uint32_t unit, int step, int lane,
                              const GemmArguments&) {
    load_words(to.codes, unit, step * kWords, lane);
    to.indices = load_word(unit + kForm.indices() + 8 * lane + 4 * step);
    if constexpr (kScales > 0) {
#pragma unroll
      for (int i = 0; i < kParts; ++i) {
        const int at = lane / 4 * kScales + (kParts == 2 ? 2 * step + i : 0);
        to.scales[i] = load_word(unit + kForm.scales_at() + 4 * at);
        to.zeros[i] = load_zeros(unit + kForm.zeros_at() + 2 * at);
      }
    }
  }
  __device__ static void expand(KeptFragments& left, const Words& from, const Rows&,
                                const GemmArguments&) {
    left.indices = copied(from.indices);
#pragma unroll
    for (int block = 0; block < 2; ++block) {
      const int part = kParts == 2 ? block : 0;
      kept_values<kBits>(from.codes + block * kForm.words(), from.scales[part], from.zeros[part],
                         left.blocks[block]);
    }
  }
};

/// For INT8 products; the scales are applied to sums.
template <int kBits, bool kByRow>
struct KeptIntegerCodes : CodesAlone {
  using Sum = int;
  using Left = KeptIntegerFragments;
  static constexpr int kSteps = 1;
  static constexpr bool kExpands = kBits == 4;
  static constexpr KeptForm kForm{kBits, 1, true, kByRow};
  static constexpr int kCodeBytes = kForm.scales_at();
  static constexpr int kWords = kForm.words() * kKeptBlocks;
  struct Words {
    std::uint32_t codes[kWords];
    std::uint32_t indices[kIntegerBlocks];
    std::uint32_t zeros;
  };
  __device__ static float scale_factor(const GemmArguments&) { return 1.0f; }

  __device__ static void load(Words& to, std::uint32_t unit, int, int lane, const GemmArguments&) {
    load_words(to.codes, unit, 0, lane);
    to.indices[0] = load_word(unit + kForm.indices() + 8 * lane);
    to.indices[1] = load_word(unit + kForm.indices() + 8 * lane + 4);
    to.zeros = load_zeros(unit + kForm.zeros_at() + lane / 4 * 2);
  }
  __device__ static void expand(KeptIntegerFragments& left, const Words& from, const Rows&,
                                const GemmArguments&) {
#pragma unroll
    for (int block = 0; block < kIntegerBlocks; ++block) {
      left.indices[block] = copied(from.indices[block]);
      kept_integers<kBits>(from.codes + block * kWords / kIntegerBlocks, from.zeros,
                           left.blocks[block]);
    }
  }
};

}  // namespace nibble::ops::cuda
