#include <algorithm>

#include "device/cuda/check.h"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/sparse/tile_units.h"
#include "ops/cuda/trellis/trellis_lanes.cuh"
#include "ops/cuda/trellis/trellis_products.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kBlocksPerMultiprocessor = 3;  // whose books shared memory has room for

struct WideTiles {
  TrellisView weight;
  TrellisBook book;
  int first_row;
  int tiles;
  core::Fp16* values;
};

__device__ __forceinline__ std::uint32_t scaled(std::uint32_t pair, __half2 scale) {
  const __half2 value = __hmul2(*reinterpret_cast<const __half2*>(&pair), scale);
  return *reinterpret_cast<const std::uint32_t*>(&value);
}

/// Thread blocks take tiles in turns.
template <int kBits>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    widen_trellis_kernel(const __grid_constant__ WideTiles a) {
  extern __shared__ __align__(16) std::byte table[];
  fill_book(a.book, table);
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int units = trellis_units(a.weight.k);
  for (int i = static_cast<int>(blockIdx.x); i < a.tiles; i += static_cast<int>(gridDim.x)) {
    const int tile = a.first_row / kTrellisRows + i;
    const TileRows rows = tile_rows(tile, a.weight.pairs);
    const int pair = lane / 4 * 2;  // the lane's rows of the tile: this one and the next
    const int row =
        pair < kTrellisRows / 2 ? rows.first + pair : rows.ninth + pair - kTrellisRows / 2;
    const __half2 upper = __float2half2_rn(a.weight.scales[row]);
    const __half2 lower = __float2half2_rn(a.weight.scales[row + 1]);
    core::Fp16* const to = a.values + static_cast<std::size_t>(row - a.first_row) * a.weight.k;
    for (int unit = warp; unit < units; unit += kWarps) {
      LaneRuns<kBits> runs;
      runs.load(a.weight.words +
                    (static_cast<std::size_t>(tile) * units + unit) * trellis_unit_words(kBits),
                lane);
      for_each_run<kBits>(runs, lane, table, [&](int run, const LaneValues& values) {
        const int input = unit * kTrellisUnitInputs + run * kTrellisInputs + lane % 4 * 4;
        if (input >= a.weight.k) {
          return;
        }
        std::uint32_t w[4];
        values.operand(w);
        *reinterpret_cast<uint2*>(to + input) =
            make_uint2(scaled(w[0], upper), scaled(w[2], upper));
        *reinterpret_cast<uint2*>(to + a.weight.k + input) =
            make_uint2(scaled(w[1], lower), scaled(w[3], lower));
      });
    }
  }
}

template <int kBits>
void launch(const WideTiles& a, int blocks, cudaStream_t stream) {
  allow_shared_bytes(widen_trellis_kernel<kBits>, kBookBytes);
  widen_trellis_kernel<kBits><<<static_cast<unsigned>(blocks), kThreads, kBookBytes, stream>>>(a);
  device::cuda::check(cudaGetLastError(), "widen_trellis");
}

}  // namespace

void widen_trellis(const TrellisView& weight, std::int64_t first, std::int64_t count,
                   int multiprocessors, core::Fp16* values, cudaStream_t stream) {
  const WideTiles a{weight, trellis_book(), static_cast<int>(first),
                    static_cast<int>(count / kTrellisRows), values};
  const int blocks = std::min(a.tiles, kBlocksPerMultiprocessor * multiprocessors);
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
