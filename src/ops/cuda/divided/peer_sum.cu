#include <algorithm>

#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/divided/peer_sum.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kLooks = 4096;  // at a packet, before the host is asked whether it will come

__device__ __forceinline__ void give(PeerPacket* to, float2 values, std::uint32_t sum) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %2};" ::"l"(to),
               "r"(__float_as_uint(values.x)), "r"(sum), "r"(__float_as_uint(values.y))
               : "memory");
}

// The packet when it has come; anything where it will not.
__device__ __forceinline__ float2 take(const PeerPacket* from, std::uint32_t sum,
                                       const volatile std::int32_t* ended) {
  std::uint32_t first;
  std::uint32_t first_of;
  std::uint32_t second;
  std::uint32_t second_of;
  for (int looks = 0;; ++looks) {
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(first), "=r"(first_of), "=r"(second), "=r"(second_of)
                 : "l"(from)
                 : "memory");
    if (first_of == sum && second_of == sum) {
      break;
    }
    if (looks == kLooks) {
      looks = 0;
      if (*ended != 0) {
        break;
      }
    }
  }
  return {__uint_as_float(first), __uint_as_float(second)};
}

__device__ __forceinline__ float2 pair_at(const float* values, std::int64_t packet,
                                          std::int64_t count) {
  const std::int64_t i = 2 * packet;
  if (i + 1 < count) {
    return *reinterpret_cast<const float2*>(values + i);
  }
  return {values[i], 0.0f};
}

template <bool kAdds>
__global__ void __launch_bounds__(kThreads)
    add_over_peers_kernel(PeerMemory memory, const float* y, float* x, std::int64_t count) {
  launch_dependents();
  wait_for_predecessor();
  const std::uint32_t sum = memory.sums[blockIdx.x] + 1;
  const std::int64_t packets = (count + 1) / 2;
  const std::int64_t begin = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  constexpr std::int64_t kStep = std::int64_t{kThreads} * kPeerBlocks;
  const std::int64_t slot = (sum & 1) * memory.size;
  for (std::int64_t i = begin; i < packets; i += kStep) {
    const float2 mine = pair_at(y, i, count);
    for (int away = 1; away < memory.size; ++away) {  // not all to the same rank at once
      const int to = (memory.rank + away) % memory.size;
      give(memory.of_rank[to] + (slot + memory.rank) * memory.packets + i, mine, sum);
    }
  }
  const PeerPacket* const here = memory.of_rank[memory.rank] + slot * memory.packets;
  for (std::int64_t i = begin; i < packets; i += kStep) {
    const float2 mine = pair_at(y, i, count);
    float2 total = {0.0f, 0.0f};
    for (int rank = 0; rank < memory.size; ++rank) {
      const float2 part =
          rank == memory.rank ? mine : take(here + rank * memory.packets + i, sum, memory.ended);
      total = {total.x + part.x, total.y + part.y};
    }
    float* const to = x + 2 * i;
    if (2 * i + 1 < count) {
      float2* const both = reinterpret_cast<float2*>(to);
      const float2 old = kAdds ? *both : float2{0.0f, 0.0f};
      *both = {old.x + total.x, old.y + total.y};
    } else {
      *to = (kAdds ? *to : 0.0f) + total.x;
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    memory.sums[blockIdx.x] = sum;
  }
}

}  // namespace

std::int64_t peer_bytes(int size, std::int64_t count) {
  return 2 * size * ((count + 1) / 2) * static_cast<std::int64_t>(sizeof(PeerPacket));
}

void add_over_peers(const PeerMemory& memory, const float* y, float* x, std::int64_t count,
                    bool adds, cudaStream_t stream) {
  const std::int64_t packets = (count + 1) / 2;
  if (count == 0) {
    return;
  }
  const auto blocks = static_cast<unsigned>(
      std::min<std::int64_t>((packets + kThreads - 1) / kThreads, kPeerBlocks));
  launch_dependent(adds ? add_over_peers_kernel<true> : add_over_peers_kernel<false>, dim3(blocks),
                   dim3(kThreads), 0, stream, memory, y, x, count);
}

}  // namespace nibble::ops::cuda
