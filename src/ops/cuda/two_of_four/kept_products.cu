#include <cstdint>
#include <type_traits>

#include <cuda_fp16.h>

#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/mma_sparse.cuh"
#include "ops/cuda/sparse/half_product.cuh"
#include "ops/cuda/two_of_four/kept_launch.h"
#include "ops/cuda/two_of_four/kept_values.cuh"

namespace nibble::ops::cuda {
namespace {

static_assert(kKeptRows == kProductRows);
constexpr int kBlockWords = 16;  // that a block of a token has

struct Arguments {
  KeptView weight;
  ProductArguments product;
  const float* token_scales;  // [m], of INT8 products
  int units;                  // of a tile of rows
};

/// A lane's part of a unit.
template <class Form>
struct LaneKept {
  static constexpr KeptForm kForm = Form::kForm;
  static constexpr int kWords = kKeptBlocks * kForm.words();
  static constexpr int kParameters = kForm.scales == 0 ? 1 : kForm.scales;  // 0 is no length
  std::uint32_t codes[kWords];
  uint2 indices;
  std::uint32_t scales[kParameters];
  std::uint32_t zeros[kParameters];

  __device__ __forceinline__ void load(const std::byte* unit, int lane) {
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(codes[i]), "=r"(codes[i + 1]), "=r"(codes[i + 2]), "=r"(codes[i + 3])
                   : "l"(unit + kept_word_at(lane, i)));
    }
    indices = __ldg(reinterpret_cast<const uint2*>(unit + kForm.indices()) + lane);
#pragma unroll
    for (int i = 0; i < kForm.scales; ++i) {
      const int at = lane / 4 * kForm.scales + i;
      scales[i] = __ldg(reinterpret_cast<const std::uint32_t*>(unit + kForm.scales_at()) + at);
      zeros[i] = __ldg(reinterpret_cast<const std::uint16_t*>(unit + kForm.zeros_at()) + at);
    }
  }
};

/// Products of float16, of form {kBits, kScales}.
template <int kBits, int kScales>
struct Halves {
  using Sum = float;
  static constexpr KeptForm kForm{kBits, kScales};
  static constexpr int kBlocks = kKeptBlocks;

  static __device__ __forceinline__ void weights(const LaneKept<Halves>& lane, int block,
                                                 std::uint32_t (&a)[kKeptPairs]) {
    const int part = kScales == kKeptBlocks ? block : 0;
    kept_values<kBits>(lane.codes + block * kForm.words(), lane.scales[part], lane.zeros[part], a);
  }
  static __device__ __forceinline__ void multiply(float (&c)[4], const std::uint32_t (&a)[4],
                                                  const std::uint32_t (&b)[4], uint2 indices,
                                                  int block) {
    const std::uint32_t word = block < 2 ? indices.x : indices.y;
    if (block % 2 == 0) {
      mma_sparse_f16<0>(c, a, b, word);
    } else {
      mma_sparse_f16<1>(c, a, b, word);
    }
  }
};

/// Products of INT8.
template <int kBits, bool kByRow>
struct Integers {
  using Sum = int;
  static constexpr KeptForm kForm{kBits, 1, true, kByRow};
  static constexpr int kBlocks = kIntegerBlocks;

  static __device__ __forceinline__ void weights(const LaneKept<Integers>& lane, int block,
                                                 std::uint32_t (&a)[kKeptPairs]) {
    kept_integers<kBits>(lane.codes + block * 2 * kForm.words(), lane.zeros[0], a);
  }
  static __device__ __forceinline__ void multiply(int (&c)[4], const std::uint32_t (&a)[4],
                                                  const std::uint32_t (&b)[4], uint2 indices,
                                                  int block) {
    mma_sparse_s8(c, a, b, block == 0 ? indices.x : indices.y);
  }
};

/// Of rows g and g + 8, as float32.
__device__ __forceinline__ float2 row_scales(std::uint32_t bits) {
  return __half22float2(*reinterpret_cast<const __half2*>(&bits));
}

/// Multiplies what the warp has of a tile: c.
template <class Form, int kColumns>
__device__ __forceinline__ void multiply_unit(const LaneKept<Form>& lane,
                                              const std::uint32_t* const (&tokens)[kColumns],
                                              int unit, typename Form::Sum (&c)[kColumns][4]) {
#pragma unroll
  for (int block = 0; block < Form::kBlocks; ++block) {
    std::uint32_t w[kKeptPairs];
    Form::weights(lane, block, w);
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
      const std::uint32_t* const x = tokens[column] + (unit * Form::kBlocks + block) * kBlockWords;
      const std::uint32_t b[4] = {x[0], x[4], x[8], x[12]};
      Form::multiply(c[column], w, b, lane.indices, block);
    }
  }
}

template <class Form, int kColumns>
__global__ void __launch_bounds__(kProductThreads)
    kept_products_kernel(const __grid_constant__ Arguments a) {
  using Lane = LaneKept<Form>;
  constexpr bool kByGroup = Form::kForm.integers && !Form::kForm.by_row;
  using Sum = std::conditional_t<kByGroup, float, typename Form::Sum>;
  __shared__ ProductSums<Sum, kColumns> sums;
  launch_dependents();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int tile = static_cast<int>(blockIdx.x);
  int unit = warp;
  const auto address = [&](int at) {
    return a.weight.units + kept_unit(tile, at, a.units) * Form::kForm.bytes();
  };
  Lane next;
  if (unit < a.units) {
    next.load(address(unit), lane);
  }
  wait_for_predecessor();
  const std::uint32_t* tokens[kColumns];
  find_tokens(a.product, lane / 4, lane % 4, tokens);
  Sum c[kColumns][4] = {};
  while (unit < a.units) {
    const Lane now = next;
    const int at = unit;
    unit += kProductWarps;
    if (unit < a.units) {
      next.load(address(unit), lane);
    }
    if constexpr (kByGroup) {
      int group[kColumns][4] = {};
      multiply_unit<Form>(now, tokens, at, group);
      const float2 scales = row_scales(now.scales[0]);
#pragma unroll
      for (int i = 0; i < 4 * kColumns; ++i) {
        c[i / 4][i % 4] = __fmaf_rn(static_cast<float>(group[i / 4][i % 4]),
                                    i % 4 < 2 ? scales.x : scales.y, c[i / 4][i % 4]);
      }
    } else {
      multiply_unit<Form>(now, tokens, at, c);
    }
  }
  const int first_row = tile * kKeptRows;
  const auto row_of = [&](int at) { return first_row + at < a.weight.n ? first_row + at : -1; };
  if constexpr (!Form::kForm.integers) {
    write_products(a.product, c, sums, row_of, SumsAsTheyAre());
  } else {
    write_products(a.product, c, sums, row_of, [&](int at, int token, Sum sum) {
      auto result = static_cast<float>(sum);
      if constexpr (!kByGroup) {
        const auto* const scales = reinterpret_cast<const __half*>(
            address(0) + Form::kForm.scales_at() + at % (kKeptRows / 2) * 4);
        result = __fmul_rn(result, __half2float(scales[at / (kKeptRows / 2)]));
      }
      return __fmul_rn(result, a.token_scales[token]);
    });
  }
}

template <class Form>
void launch(const Arguments& a, cudaStream_t stream) {
  const auto tiles = static_cast<unsigned>((a.weight.n + kKeptRows - 1) / kKeptRows);
  with_columns(a.product.m, [&](auto columns) {
    launch_dependent(kept_products_kernel<Form, columns()>, dim3(tiles), dim3(kProductThreads), 0,
                     stream, a);
  });
}

}  // namespace

void launch_kept_products(const KeptProblem& problem, cudaStream_t stream) {
  const KeptView& weight = *problem.weight;
  const KeptForm& form = weight.form;
  Arguments a{weight, arguments_of(problem), problem.scales,
              (weight.k + kKeptUnitInputs - 1) / kKeptUnitInputs};
  if (form.integers) {
    a.product.x = reinterpret_cast<const std::byte*>(problem.codes);
    a.product.row_bytes = static_cast<int>(problem.ldx);
    if (form.bits == 8) {
      return form.by_row ? launch<Integers<8, true>>(a, stream)
                         : launch<Integers<8, false>>(a, stream);
    }
    return form.by_row ? launch<Integers<4, true>>(a, stream)
                       : launch<Integers<4, false>>(a, stream);
  }
  if (form.bits == 16) {
    return launch<Halves<16, 0>>(a, stream);
  }
  const bool one = form.scales == 1;
  if (form.bits == 8) {
    return one ? launch<Halves<8, 1>>(a, stream) : launch<Halves<8, kKeptBlocks>>(a, stream);
  }
  return one ? launch<Halves<4, 1>>(a, stream) : launch<Halves<4, kKeptBlocks>>(a, stream);
}

}  // namespace nibble::ops::cuda
