#include <algorithm>

#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/mma.cuh"
#include "ops/cuda/sparse/half_product.cuh"
#include "ops/cuda/sparse/tile_units.h"
#include "ops/cuda/trellis/trellis_lanes.cuh"
#include "ops/cuda/trellis/trellis_launch.h"

namespace nibble::ops::cuda {
namespace {

static_assert(kTrellisRows == kProductRows && kTrellisRows == kTileBlock);

constexpr int kBlocksPerMultiprocessor = 3;  // whose books shared memory has room for

struct Arguments {
  TrellisView weight;
  ProductArguments product;
  TrellisBook book;
  int tiles;
  int units;  // of a tile
};

/// c += the products of a run with x, the inputs of the lane's tokens.
template <int kColumns>
__device__ __forceinline__ void multiply_run(const LaneValues& values, const core::Fp16* const* x,
                                             int input, float (&c)[kColumns][4]) {
  std::uint32_t w[4];
  values.operand(w);
#pragma unroll
  for (int column = 0; column < kColumns; ++column) {
    const uint2 inputs = *reinterpret_cast<const uint2*>(x[column] + input);
    mma_f16(c[column], w, inputs.x, inputs.y);
  }
}

template <int kBits, int kColumns>
__global__ void __launch_bounds__(kProductThreads, kColumns <= 2 ? kBlocksPerMultiprocessor : 2)
    trellis_products_kernel(const __grid_constant__ Arguments a) {
  extern __shared__ __align__(16) std::byte table[];
  __shared__ ProductSums<float, kColumns> sums;
  launch_dependents();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int step = static_cast<int>(gridDim.x);
  const auto address = [&](int tile, int unit) {
    return a.weight.words +
           (static_cast<std::size_t>(tile) * a.units + unit) * trellis_unit_words(kBits);
  };
  LaneRuns<kBits> next;
  if (warp < a.units) {
    next.load(address(static_cast<int>(blockIdx.x), warp), lane);
  }
  fill_book(a.book, table);
  wait_for_predecessor();
  __syncthreads();
  const core::Fp16* tokens[kColumns];
  find_tokens(a.product, lane / 4, 4 * (lane % 4), tokens);
  for (int tile = static_cast<int>(blockIdx.x); tile < a.tiles; tile += step) {
    float c[kColumns][4] = {};
    for (int unit = warp; unit < a.units; unit += kProductWarps) {
      const LaneRuns<kBits> now = next;
      if (unit + kProductWarps < a.units) {
        next.load(address(tile, unit + kProductWarps), lane);
      } else if (tile + step < a.tiles) {
        next.load(address(tile + step, warp), lane);
      }
      for_each_run<kBits>(now, lane, table, [&](int run, const LaneValues& values) {
        multiply_run(values, tokens, unit * kTrellisUnitInputs + run * kTrellisInputs, c);
      });
    }
    const TileRows rows = tile_rows(tile, a.weight.pairs);
    const auto row_of = [&](int at) {
      const int row = trellis_row(at);
      return row < kTrellisRows / 2 ? rows.first + row : rows.ninth + row - kTrellisRows / 2;
    };
    write_products(a.product, c, sums, row_of, [&](int at, int, float sum) {
      return __fmul_rn(sum, a.weight.scales[row_of(at)]);
    });
    __syncthreads();  // the next tile's sums come into the same memory
  }
}

template <int kBits>
void launch(const Arguments& a, int blocks, cudaStream_t stream) {
  with_columns(a.product.m, [&](auto columns) {
    const auto kernel = trellis_products_kernel<kBits, columns()>;
    allow_shared_bytes(kernel, kBookBytes);
    launch_dependent(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kProductThreads), kBookBytes,
                     stream, a);
  });
}

}  // namespace

void launch_trellis_products(const TrellisProblem& problem, cudaStream_t stream) {
  const TrellisView& weight = *problem.weight;
  const Arguments a{weight, arguments_of(problem), trellis_book(), weight.n / kTrellisRows,
                    trellis_units(weight.k)};
  const int blocks = std::min(a.tiles, kBlocksPerMultiprocessor * problem.multiprocessors);
  switch (weight.bits) {
    case 2:
      return launch<2>(a, blocks, stream);
    case 3:
      return launch<3>(a, blocks, stream);
    default:
      return launch<4>(a, blocks, stream);
  }
}

}  // namespace nibble::ops::cuda
