#include <algorithm>

#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/divided/pair_sum.h"
#include "ops/cuda/divided/wire_memory.cuh"

namespace nibble::ops::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kEach = 2;  // blocks that a thread reads at once
constexpr int kLag = 2;   // rounds that are given before the first is taken

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
        put_block(there + i + j * stride, to_wire_block(given[j].bits));
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
        WireBlock other = look_at_block(here + at);
        take_block(here + at, other, memory.ended);
        add<kAdds>(to_wire_block(mine[j].bits), other, x, at, vectors);
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

__global__ void __launch_bounds__(kPairBlocks) begin_kernel(std::uint32_t* sums) {
  launch_dependents();
  wait_for_predecessor();
  ++sums[threadIdx.x];
}

// Blocks of `tokens` to `to`.
__device__ __forceinline__ void send(const float* values, std::int64_t of_token,
                                     const TokenRange& tokens, WireBlock* to) {
  const std::int64_t stride = std::int64_t{kThreads} * gridDim.x;
  const std::int64_t end = tokens.end * of_token / kWireBlock;
  for (std::int64_t i =
           tokens.begin * of_token / kWireBlock + blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
       i < end; i += kEach * stride) {
    Numbers numbers[kEach];
    read_each(numbers, values, i, stride, 2 * end);
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (i + j * stride < end) {
        put_block(to + i + j * stride, to_wire_block(numbers[j].bits));
      }
    }
  }
}

__global__ void __launch_bounds__(kThreads, 2)
    send_kernel(const float* values, std::int64_t of_token, BlockOutput output) {
  launch_dependents();
  wait_for_predecessor();
  send(values, of_token, output.sent, output.there + (*output.sum & 1) * output.place);
  send(values, of_token, output.kept, output.here);
}

// What a thread has of a block while the other rank's is on its way.
struct Begun {
  WireBlock mine;
  WireBlock other;
};

__global__ void __launch_bounds__(kThreads, 2)
    add_begun_kernel(PairSum sum, float* x, std::int64_t blocks) {
  launch_dependents();
  wait_for_predecessor();
  WireBlock* const here = sum.other + (*sum.number & 1) * sum.place;
  const std::int64_t stride = std::int64_t{kThreads} * gridDim.x;
  const std::int64_t begin = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  for (std::int64_t i = begin; i < blocks; i += kEach * stride) {
    Begun begun[kEach];
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (const std::int64_t at = i + j * stride; at < blocks) {
        begun[j] = {sum.mine[at], look_at_block(here + at)};
      }
    }
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (const std::int64_t at = i + j * stride; at < blocks) {
        take_block(here + at, begun[j].other, sum.ended);
        add<true>(begun[j].mine, begun[j].other, x, at, 2 * blocks);
      }
    }
  }
}

__global__ void meet_kernel(volatile std::uint32_t* there, const volatile std::uint32_t* here,
                            const std::uint32_t* number, const volatile std::int32_t* ended) {
  launch_dependents();
  wait_for_predecessor();
  const std::uint32_t sum = *number;
  __threadfence_system();
  *there = sum;
  for (int looks = 0; static_cast<std::int32_t>(*here - sum) < 0; ++looks) {
    if (looks == kLooks) {
      looks = 0;
      if (*ended != 0) {
        break;
      }
    }
  }
  __threadfence_system();
}

// Blocks of threads for so many numbers.
unsigned launched_blocks(std::int64_t count) {
  const std::int64_t wanted = (count + kWireBlock * kThreads - 1) / (kWireBlock * kThreads);
  return static_cast<unsigned>(std::min<std::int64_t>(wanted, kPairBlocks));
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
    launch_dependent(adds ? add_over_pair_kernel<true> : add_over_pair_kernel<false>,
                     dim3(launched_blocks(part)), dim3(kThreads), 0, stream, memory, y + first,
                     x + first, part);
  }
}

void begin_over_pair(const PairMemory& memory, cudaStream_t stream) {
  launch_dependent(begin_kernel, dim3(1), dim3(kPairBlocks), 0, stream, memory.sums);
}

void meet_over_pair(const PairMemory& memory, cudaStream_t stream) {
  const auto rank = static_cast<std::size_t>(memory.rank);
  launch_dependent(meet_kernel, dim3(1), dim3(1), 0, stream, memory.met[1 - rank], memory.met[rank],
                   memory.sums, memory.ended);
}

void send_over_pair(const float* values, std::int64_t of_token, const BlockOutput& output,
                    cudaStream_t stream) {
  launch_dependent(send_kernel, dim3(kPairBlocks), dim3(kThreads), 0, stream, values, of_token,
                   output);
}

void add_begun(const PairSum& sum, float* x, std::int64_t count, cudaStream_t stream) {
  if (count > 0) {
    launch_dependent(add_begun_kernel, dim3(launched_blocks(count)), dim3(kThreads), 0, stream, sum,
                     x, count / kWireBlock);
  }
}

}  // namespace nibble::ops::cuda
