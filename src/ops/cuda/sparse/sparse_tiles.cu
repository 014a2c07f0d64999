#include "device/cuda/check.h"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/mma.cuh"
#include "ops/cuda/device_code/scaled_pair.cuh"
#include "ops/cuda/sparse/half_product.cuh"
#include "ops/cuda/sparse/sparse_tiles_launch.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kRows = static_cast<int>(kTileBlock);
static_assert(kRows == kProductRows);
constexpr int kBlocks = static_cast<int>(kUnitBlocks);
constexpr std::uint32_t kNibbles = 0x000f000f;

struct Arguments {
  TilesView weight;
  ProductArguments product;
};

/// A lane's part of a unit.
struct LaneTiles {
  std::uint32_t codes[kBlocks];
  std::uint32_t scales;  // of block lane % 4
  std::uint32_t zeros;
  uint2 places;

  __device__ __forceinline__ void load(const std::byte* unit, int lane) {
    const auto* const words = reinterpret_cast<const uint4*>(unit) + lane;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(codes[0]), "=r"(codes[1]), "=r"(codes[2]), "=r"(codes[3])
                 : "l"(words));
    scales = __ldg(reinterpret_cast<const std::uint32_t*>(unit + kTileUnitScales) + lane);
    zeros = __ldg(reinterpret_cast<const std::uint8_t*>(unit + kTileUnitZeros) + lane);
    places = __ldg(reinterpret_cast<const uint2*>(unit + kTileUnitPlaces));
  }
  /// Which 16 inputs block `block` meets.
  __device__ __forceinline__ int place(int block) const {
    const std::uint32_t pair = block < 2 ? places.x : places.y;
    return static_cast<int>(block % 2 == 0 ? pair & 0xffffu : pair >> 16);
  }
  /// The left operand that block `block` is. All lanes of a warp call it.
  __device__ __forceinline__ void weights(int block, int lane, std::uint32_t (&a)[4]) const {
    const int source = (lane & ~3) | block;
    const std::uint32_t both = __shfl_sync(kAllLanes, scales, source);
    const std::uint32_t zero = __shfl_sync(kAllLanes, zeros, source);
    const std::uint32_t scale[2] = {__byte_perm(both, 0, 0x1010), __byte_perm(both, 0, 0x3232)};
    const std::uint32_t shift[2] = {kMagic | (zero & 15u) * 0x10001u,
                                    kMagic | (zero >> 4) * 0x10001u};
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // rows g and g + 8, then both again
      const std::uint32_t pair = (codes[block] >> (4 * i) & kNibbles) | kMagic;
      a[i] = scaled_pair(pair, shift[i % 2], scale[i % 2]);
    }
  }
};

template <int kColumns>
__global__ void __launch_bounds__(kProductThreads)
    sparse_tiles_kernel(const __grid_constant__ Arguments a) {
  __shared__ ProductSums<float, kColumns> sums;
  launch_dependents();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int tile = static_cast<int>(blockIdx.x);
  const int end = a.weight.first_units[tile + 1];
  int unit = a.weight.first_units[tile] + warp;
  const auto address = [&](int at) {
    return a.weight.units + static_cast<std::size_t>(at) * kTileUnitBytes;
  };
  LaneTiles next;
  if (unit < end) {
    next.load(address(unit), lane);
  }
  wait_for_predecessor();
  const core::Fp16* tokens[kColumns];
  find_tokens(a.product, lane / 4, 4 * (lane % 4), tokens);
  float c[kColumns][4] = {};
  while (unit < end) {
    const LaneTiles now = next;
    unit += kProductWarps;
    if (unit < end) {
      next.load(address(unit), lane);
    }
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      std::uint32_t w[4];
      now.weights(block, lane, w);
      const int input = now.place(block) * kRows;
#pragma unroll
      for (int column = 0; column < kColumns; ++column) {
        const uint2 x = *reinterpret_cast<const uint2*>(tokens[column] + input);
        mma_f16(c[column], w, x.x, x.y);
      }
    }
  }
  const TileRows rows = tile_rows(tile, a.weight.pairs);
  const auto row_of = [&](int at) {
    return at < kRows / 2 ? rows.first + at : rows.ninth + at - kRows / 2;
  };
  write_products(a.product, c, sums, row_of, SumsAsTheyAre());
}

/// A tile for each thread block.
__global__ void __launch_bounds__(kProductThreads)
    widen_tiles_kernel(const __grid_constant__ TilesView weight, int first_row,
                       core::Fp16* values) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int tile = first_row / kRows + static_cast<int>(blockIdx.x);
  const TileRows rows = tile_rows(tile, weight.pairs);
  const int end = weight.first_units[tile + 1];
  for (int unit = weight.first_units[tile] + warp; unit < end; unit += kProductWarps) {
    LaneTiles tiles;
    tiles.load(weight.units + static_cast<std::size_t>(unit) * kTileUnitBytes, lane);
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      std::uint32_t w[4];
      tiles.weights(block, lane, w);
      const int input = tiles.place(block) * kRows + 4 * (lane % 4);
      const bool is_copy = block > 0 && tiles.place(block) == tiles.place(block - 1);
      for (int half = 0; half < 2 && !is_copy; ++half) {
        const int row = (half == 0 ? rows.first : rows.ninth) + lane / 4 - first_row;
        *reinterpret_cast<uint2*>(values + static_cast<std::size_t>(row) * weight.k + input) =
            make_uint2(w[half], w[half + 2]);
      }
    }
  }
}

}  // namespace

void launch_sparse_tiles(const TilesProblem& problem, cudaStream_t stream) {
  const Arguments a{*problem.weight, arguments_of(problem)};
  const auto tiles = static_cast<unsigned>(a.weight.n / kRows);
  with_columns(a.product.m, [&](auto columns) {
    launch_dependent(sparse_tiles_kernel<columns()>, dim3(tiles), dim3(kProductThreads), 0, stream,
                     a);
  });
}

void widen_tiles(const TilesView& weight, std::int64_t first, std::int64_t count,
                 core::Fp16* values, cudaStream_t stream) {
  device::cuda::check(
      cudaMemsetAsync(values, 0, static_cast<std::size_t>(count * weight.k) * sizeof(core::Fp16),
                      stream),
      "cudaMemsetAsync");
  widen_tiles_kernel<<<static_cast<unsigned>(count / kRows), kProductThreads, 0, stream>>>(
      weight, static_cast<int>(first), values);
  device::cuda::check(cudaGetLastError(), "widen_tiles");
}

}  // namespace nibble::ops::cuda
