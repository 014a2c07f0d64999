#include <algorithm>

#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/divided/pair_sum.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kEach = 2;      // blocks that a thread reads at once
constexpr int kLag = 2;       // rounds that are given before the first is taken
constexpr int kLooks = 4096;  // at a block, before the host is asked whether it will come

struct Numbers {
  std::uint32_t bits[kWireBlock];
};

// Zeros beyond the end.
__device__ __forceinline__ Numbers read(const float* values, std::int64_t block,
                                        std::int64_t vectors) {
  Numbers numbers;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t i = 2 * block + half;
    const uint4 four = i < vectors ? reinterpret_cast<const uint4*>(values)[i] : uint4{0, 0, 0, 0};
    numbers.bits[4 * half] = four.x;
    numbers.bits[4 * half + 1] = four.y;
    numbers.bits[4 * half + 2] = four.z;
    numbers.bits[4 * half + 3] = four.w;
  }
  return numbers;
}

// Of the blocks `first`, `first` + stride, ... that a thread has.
__device__ __forceinline__ void read_each(Numbers (&numbers)[kEach], const float* values,
                                          std::int64_t first, std::int64_t stride,
                                          std::int64_t vectors) {
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    numbers[j] = read(values, first + j * stride, vectors);
  }
}

__device__ __forceinline__ void put(WireBlock* to, const WireBlock& block) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(block.words[0]),
               "r"(block.words[1]), "r"(block.words[2]), "r"(block.words[3])
               : "memory");
}

// The block when it has come, of which zeros are left; anything where it will not.
__device__ __forceinline__ WireBlock take(WireBlock* from, const volatile std::int32_t* ended) {
  WireBlock block;
  for (int looks = 0;; ++looks) {
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(block.words[0]), "=r"(block.words[1]), "=r"(block.words[2]),
                   "=r"(block.words[3])
                 : "l"(from)
                 : "memory");
    if (has_come(block)) {
      break;
    }
    if (looks == kLooks) {
      looks = 0;
      if (*ended != 0) {
        break;
      }
    }
  }
  *reinterpret_cast<uint4*>(from) = uint4{0, 0, 0, 0};
  return block;
}

// Two numbers have one sum, whoever is first.
template <bool kAdds>
__device__ __forceinline__ void add(const WireBlock& mine, const WireBlock& other, float* x,
                                    std::int64_t block, std::int64_t vectors) {
  float first[kWireBlock];
  float second[kWireBlock];
  from_wire_block(mine, first);
  from_wire_block(other, second);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t i = 2 * block + half;
    if (i >= vectors) {
      continue;
    }
    float4* const to = reinterpret_cast<float4*>(x) + i;
    const int at = 4 * half;
    float4 total = {first[at] + second[at], first[at + 1] + second[at + 1],
                    first[at + 2] + second[at + 2], first[at + 3] + second[at + 3]};
    if (kAdds) {
      const float4 old = *to;
      total = {old.x + total.x, old.y + total.y, old.z + total.z, old.w + total.w};
    }
    *to = total;
  }
}

template <bool kAdds>
__global__ void __launch_bounds__(kThreads, 2)
    add_over_pair_kernel(PairMemory memory, const float* y, float* x, std::int64_t count) {
  launch_dependents();
  wait_for_predecessor();
  const std::uint32_t sum = memory.sums[blockIdx.x] + 1;
  const std::int64_t slot = (sum & 1) * memory.blocks;
  WireBlock* const there = memory.of_rank[1 - memory.rank] + slot;
  WireBlock* const here = memory.of_rank[memory.rank] + slot;
  const std::int64_t vectors = count / 4;
  const std::int64_t blocks = (vectors + 1) / 2;
  const std::int64_t stride = std::int64_t{kThreads} * gridDim.x;
  const std::int64_t step = kEach * stride;
  const std::int64_t begin = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  for (std::int64_t i = begin; i - kLag * step < blocks; i += step) {
    Numbers given[kEach];
    read_each(given, y, i, stride, vectors);
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (i + j * stride < blocks) {
        put(there + i + j * stride, to_wire_block(given[j].bits));
      }
    }
    const std::int64_t older = i - kLag * step;
    if (older < 0) {
      continue;
    }
    Numbers mine[kEach];
    read_each(mine, y, older, stride, vectors);
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (const std::int64_t at = older + j * stride; at < blocks) {
        add<kAdds>(to_wire_block(mine[j].bits), take(here + at, memory.ended), x, at, vectors);
      }
    }
  }
  __syncthreads();
  // Sums of fewer blocks of threads count for all.
  for (int b = static_cast<int>(blockIdx.x + threadIdx.x * gridDim.x); b < kPairBlocks;
       b += static_cast<int>(kThreads * gridDim.x)) {
    memory.sums[b] = sum;
  }
}

}  // namespace

std::int64_t pair_bytes(std::int64_t blocks) {
  return 2 * blocks * static_cast<std::int64_t>(sizeof(WireBlock));
}

void add_over_pair(const PairMemory& memory, const float* y, float* x, std::int64_t count,
                   bool adds, cudaStream_t stream) {
  const std::int64_t most = memory.blocks * kWireBlock;
  for (std::int64_t first = 0; first < count; first += most) {
    const std::int64_t part = std::min(most, count - first);
    const std::int64_t wanted = (part + kWireBlock * kThreads - 1) / (kWireBlock * kThreads);
    const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(wanted, kPairBlocks));
    launch_dependent(adds ? add_over_pair_kernel<true> : add_over_pair_kernel<false>, dim3(blocks),
                     dim3(kThreads), 0, stream, memory, y + first, x + first, part);
  }
}

}  // namespace nibble::ops::cuda
