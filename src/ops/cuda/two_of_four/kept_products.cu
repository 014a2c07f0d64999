#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/mma_sparse.cuh"
#include "ops/cuda/sparse/half_product.cuh"
#include "ops/cuda/two_of_four/kept_launch.h"

namespace nibble::ops::cuda {
namespace {

static_assert(kKeptRows == kProductRows);

struct Arguments {
  KeptView weight;
  HalfArguments product;
  int units;  // of a tile of rows
};

/// A lane's part of a unit of form {kBits, kScales}.
template <int kBits, int kScales>
struct LaneKept {
  static constexpr KeptForm kForm{kBits, kScales};
  static constexpr int kWords = kForm.words();
  static constexpr int kParameters = kScales == 0 ? 1 : kScales;  // 0 is no length
  std::uint32_t codes[kKeptBlocks * kWords];
  uint2 indices;
  std::uint32_t scales[kParameters];
  std::uint32_t zeros[kParameters];

  __device__ __forceinline__ void load(const std::byte* unit, int lane) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(codes[4 * i]), "=r"(codes[4 * i + 1]), "=r"(codes[4 * i + 2]),
                     "=r"(codes[4 * i + 3])
                   : "l"(unit + kept_word_at(lane, 4 * i)));
    }
    indices = __ldg(reinterpret_cast<const uint2*>(unit + kForm.indices()) + lane);
#pragma unroll
    for (int i = 0; i < kScales; ++i) {
      const int at = lane / 4 * kScales + i;
      scales[i] = __ldg(reinterpret_cast<const std::uint32_t*>(unit + kForm.scales_at()) + at);
      zeros[i] = __ldg(reinterpret_cast<const std::uint16_t*>(unit + kForm.zeros_at()) + at);
    }
  }
  /// The left operand that block `block` is.
  __device__ __forceinline__ void weights(int block, std::uint32_t (&a)[kKeptPairs]) const {
    const std::uint32_t* const words = codes + block * kWords;
    if constexpr (kBits == 16) {
#pragma unroll
      for (int i = 0; i < kKeptPairs; ++i) {
        a[i] = words[i];
      }
    } else {
      constexpr int kEach = kKeptPairs / kWords;  // pairs of a word
      constexpr std::uint32_t kCode = ((1u << kBits) - 1) * 0x10001u;
      const std::uint32_t both = scales[kScales == 1 ? 0 : block];
      const std::uint32_t zero = zeros[kScales == 1 ? 0 : block];
      const std::uint32_t scale[2] = {__byte_perm(both, 0, 0x1010), __byte_perm(both, 0, 0x3232)};
      const std::uint32_t shift[2] = {kMagic + (zero & 0xffu) * 0x10001u,
                                      kMagic + (zero >> 8) * 0x10001u};
#pragma unroll
      for (int i = 0; i < kKeptPairs; ++i) {  // rows g and g + 8, then both again
        const std::uint32_t pair = (words[i / kEach] >> (i % kEach * kBits) & kCode) | kMagic;
        a[i] = scaled_pair(pair, shift[i % 2], scale[i % 2]);
      }
    }
  }
};

template <int kBits, int kScales, int kColumns>
__global__ void __launch_bounds__(kProductThreads)
    kept_products_kernel(const __grid_constant__ Arguments a) {
  using Lane = LaneKept<kBits, kScales>;
  __shared__ ProductSums<kColumns> sums;
  launch_dependents();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int tile = static_cast<int>(blockIdx.x);
  const std::byte* const units =
      a.weight.units + static_cast<std::size_t>(tile) * a.units * Lane::kForm.bytes();
  int unit = warp;
  const auto address = [&](int at) {
    return units + static_cast<std::size_t>(at) * Lane::kForm.bytes();
  };
  Lane next;
  if (unit < a.units) {
    next.load(address(unit), lane);
  }
  wait_for_predecessor();
  const core::Fp16* tokens[kColumns];
  find_tokens(a.product, lane / 4, 2 * (lane % 4), tokens);
  float c[kColumns][4] = {};
  while (unit < a.units) {
    const Lane now = next;
    const int first = unit * kKeptUnitInputs;
    unit += kProductWarps;
    if (unit < a.units) {
      next.load(address(unit), lane);
    }
#pragma unroll
    for (int block = 0; block < kKeptBlocks; ++block) {
      std::uint32_t w[kKeptPairs];
      now.weights(block, w);
      const std::uint32_t indices = block < 2 ? now.indices.x : now.indices.y;
#pragma unroll
      for (int column = 0; column < kColumns; ++column) {
        const auto* const x =
            reinterpret_cast<const std::uint32_t*>(tokens[column] + first + block * kKeptInputs);
        const std::uint32_t b[4] = {x[0], x[4], x[8], x[12]};  // inputs 2 t, 8 + 2 t, ...
        if (block % 2 == 0) {
          mma_sparse_f16<0>(c[column], w, b, indices);
        } else {
          mma_sparse_f16<1>(c[column], w, b, indices);
        }
      }
    }
  }
  const int first_row = tile * kKeptRows;
  write_products(a.product, c, sums,
                 [&](int at) { return first_row + at < a.weight.n ? first_row + at : -1; });
}

template <int kBits, int kScales>
void launch(const Arguments& a, cudaStream_t stream) {
  const auto tiles = static_cast<unsigned>((a.weight.n + kKeptRows - 1) / kKeptRows);
  with_columns(a.product.m, [&](auto columns) {
    launch_dependent(kept_products_kernel<kBits, kScales, columns()>, dim3(tiles),
                     dim3(kProductThreads), 0, stream, a);
  });
}

}  // namespace

void launch_kept_products(const KeptProblem& problem, cudaStream_t stream) {
  const KeptView& weight = *problem.weight;
  const Arguments a{weight, arguments_of(problem),
                    (weight.k + kKeptUnitInputs - 1) / kKeptUnitInputs};
  if (weight.form.bits == 16) {
    return launch<16, 0>(a, stream);
  }
  const bool one = weight.form.scales == 1;
  if (weight.form.bits == 8) {
    return one ? launch<8, 1>(a, stream) : launch<8, kKeptBlocks>(a, stream);
  }
  return one ? launch<4, 1>(a, stream) : launch<4, kKeptBlocks>(a, stream);
}

}  // namespace nibble::ops::cuda
