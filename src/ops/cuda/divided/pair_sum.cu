#include <algorithm>

#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/divided/pair_sum.h"
#include "ops/cuda/divided/wire_float.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kLanes = 32;
constexpr int kEach = 4;          // vectors of four numbers of a thread in a tile
constexpr std::int64_t kLag = 2;  // tiles that are given before the first is taken
constexpr int kLooks = 4096;      // at a tile, before the host is asked whether it will come
static_assert(kThreads * kEach * 4 == kTileNumbers);

// Where vector j of this thread is in a tile: those of a warp lie side by side.
__device__ __forceinline__ std::int64_t vector_of(int j) {
  return (threadIdx.x / kLanes * kEach + j) * kLanes + threadIdx.x % kLanes;
}

// Where the 16 bytes of plane p are that this thread gives and takes.
__device__ __forceinline__ std::int64_t plane_of(int p) {
  return (threadIdx.x / kLanes * 3 + p) * kLanes + threadIdx.x % kLanes;
}

struct Tile {
  std::int64_t first;  // vector of the matrix
  std::int64_t count;  // vectors of it
};

__device__ __forceinline__ uint4 bits_at(const float* values, const Tile& tile, int j) {
  const std::int64_t i = tile.first + vector_of(j);
  return i < tile.count ? reinterpret_cast<const uint4*>(values)[i] : uint4{0, 0, 0, 0};
}

__device__ __forceinline__ void give(uint4* there, const float* y, const Tile& tile) {
  std::uint32_t words[3 * kEach];
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const uint4 four = bits_at(y, tile, j);
    const std::uint32_t bits[4] = {four.x, four.y, four.z, four.w};
    const WireWords wire = to_wire(bits);
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      words[3 * j + i] = wire.words[i];
    }
  }
#pragma unroll
  for (int p = 0; p < 3; ++p) {
    there[plane_of(p)] = {words[4 * p], words[4 * p + 1], words[4 * p + 2], words[4 * p + 3]};
  }
}

__device__ __forceinline__ float as_it_travels(std::uint32_t bits) {
  return __uint_as_float(wire_bits(bits));
}

template <bool kAdds>
__device__ __forceinline__ void take(const uint4* here, const float* y, float* x,
                                     const Tile& tile) {
  std::uint32_t words[3 * kEach];
#pragma unroll
  for (int p = 0; p < 3; ++p) {
    const uint4 four = __ldcg(here + plane_of(p));
    words[4 * p] = four.x;
    words[4 * p + 1] = four.y;
    words[4 * p + 2] = four.z;
    words[4 * p + 3] = four.w;
  }
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const std::int64_t i = tile.first + vector_of(j);
    if (i >= tile.count) {
      continue;
    }
    const uint4 mine = reinterpret_cast<const uint4*>(y)[i];
    std::uint32_t other[4];
    from_wire({{words[3 * j], words[3 * j + 1], words[3 * j + 2]}}, other);
    // Two numbers have one sum, whoever is first.
    float4 total = {as_it_travels(mine.x) + __uint_as_float(other[0]),
                    as_it_travels(mine.y) + __uint_as_float(other[1]),
                    as_it_travels(mine.z) + __uint_as_float(other[2]),
                    as_it_travels(mine.w) + __uint_as_float(other[3])};
    float4* const to = reinterpret_cast<float4*>(x) + i;
    if (kAdds) {
      const float4 old = *to;
      total = {old.x + total.x, old.y + total.y, old.z + total.z, old.w + total.w};
    }
    *to = total;
  }
}

// All threads of the block have given: says so to the other rank.
__device__ __forceinline__ void announce(std::uint32_t* flag, std::uint32_t sum) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system();
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(sum) : "memory");
  }
}

// Waits until a tile has come, or will not.
__device__ __forceinline__ void await(const std::uint32_t* flag, std::uint32_t sum,
                                      const volatile std::int32_t* ended) {
  if (threadIdx.x == 0) {
    std::uint32_t found;
    for (int looks = 0;; ++looks) {
      asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(found) : "l"(flag) : "memory");
      if (found == sum) {
        break;
      }
      if (looks == kLooks) {
        looks = 0;
        if (*ended != 0) {
          break;
        }
      }
    }
  }
  __syncthreads();
}

template <bool kAdds>
__global__ void __launch_bounds__(kThreads)
    add_over_pair_kernel(PairMemory memory, const float* y, float* x, std::int64_t count) {
  launch_dependents();
  wait_for_predecessor();
  const std::uint32_t sum = memory.sums[blockIdx.x] + 1;
  const std::int64_t slot = (sum & 1) * memory.tiles;
  const std::int64_t flags = 2 * memory.tiles * kTileBytes;
  std::byte* const there = memory.of_rank[1 - memory.rank];
  std::byte* const here = memory.of_rank[memory.rank];
  auto* const flags_there = reinterpret_cast<std::uint32_t*>(there + flags) + slot;
  auto* const flags_here = reinterpret_cast<std::uint32_t*>(here + flags) + slot;
  const std::int64_t vectors = count / 4;
  const std::int64_t tiles = (count + kTileNumbers - 1) / kTileNumbers;
  const auto tile_of = [&](std::int64_t t) { return Tile{t * (kTileNumbers / 4), vectors}; };
  for (std::int64_t t = blockIdx.x; t - kLag * gridDim.x < tiles; t += gridDim.x) {
    if (t < tiles) {
      give(reinterpret_cast<uint4*>(there + (slot + t) * kTileBytes), y, tile_of(t));
      announce(flags_there + t, sum);
    }
    if (const std::int64_t older = t - kLag * gridDim.x; older >= 0) {
      await(flags_here + older, sum, memory.ended);
      take<kAdds>(reinterpret_cast<const uint4*>(here + (slot + older) * kTileBytes), y, x,
                  tile_of(older));
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    memory.sums[blockIdx.x] = sum;
  }
}

}  // namespace

std::int64_t pair_bytes(std::int64_t tiles) {
  return 2 * tiles * (kTileBytes + static_cast<std::int64_t>(sizeof(std::uint32_t)));
}

void add_over_pair(const PairMemory& memory, const float* y, float* x, std::int64_t count,
                   bool adds, cudaStream_t stream) {
  const std::int64_t most = memory.tiles * kTileNumbers;
  for (std::int64_t first = 0; first < count; first += most) {
    const std::int64_t part = std::min(most, count - first);
    const std::int64_t tiles = (part + kTileNumbers - 1) / kTileNumbers;
    const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(tiles, kPairBlocks));
    launch_dependent(adds ? add_over_pair_kernel<true> : add_over_pair_kernel<false>, dim3(blocks),
                     dim3(kThreads), 0, stream, memory, y + first, x + first, part);
  }
}

}  // namespace nibble::ops::cuda
