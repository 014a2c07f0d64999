#include <algorithm>

#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/device_code/cluster.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/per_device.h"
#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/sampling/logit_key.cuh"
#include "ops/cuda/sampling/ranking.h"

/// Every block takes kPart keys of a row and keeps the largest, sorted; what all blocks of a row
/// have kept is a row for the next launch, until one block has it all.
///
///   thread t of 256   keys t, t + 256, ..., t + 15 * 256 of the part     in registers
///   bound             reached by the largest keys of about `count` threads, by bisection over bits
///   keys from it on   a few more than `count`                            to shared memory, sorted
///
/// For the largest key alone one block of more threads goes through a row; of few rows, a cluster
/// of such blocks.
namespace nibble::ops::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = 16;  // keys of a thread
constexpr int kPart = kThreads * kEach;

struct LogitSource {
  const float* logits;
  std::int64_t columns;
  __device__ LogitKey at(std::int64_t row, std::int64_t column) const {
    return column < columns
               ? key_of(logits[row * columns + column], static_cast<std::uint32_t>(column))
               : kNoKey;
  }
};

struct KeySource {
  const LogitKey* keys;
  std::int64_t columns;
  __device__ LogitKey at(std::int64_t row, std::int64_t column) const {
    return column < columns ? keys[row * columns + column] : kNoKey;
  }
};

/// A key that at least `count` keys of the block reach, and not many more where they differ; the
/// smallest there is where the threads are too few to tell. `largest` is of the thread's own.
__device__ LogitKey reached_by(int count, LogitKey largest) {
  const auto place = static_cast<std::uint32_t>(largest >> 32);
  std::uint32_t bound = 0;
  for (std::uint32_t bit = 1u << 31; bit != 0; bit /= 2) {
    const int reached = __syncthreads_count(place >= (bound | bit));
    if (reached >= count) {
      bound |= bit;
      if (reached <= count + count / 4) {
        break;
      }
    }
  }
  return max(kNoKey + 1, static_cast<LogitKey>(bound) << 32);
}

/// Puts the keys of all threads that are not below `bound` behind one another; how many there are,
/// by `found`, which is 0 before.
__device__ void gather(const LogitKey (&own)[kEach], LogitKey bound, LogitKey* keys, int& found) {
  int count = 0;
#pragma unroll
  for (const LogitKey key : own) {
    count += key >= bound ? 1 : 0;
  }
  if (count == 0) {
    return;
  }
  int at = atomicAdd(&found, count);
#pragma unroll
  for (const LogitKey key : own) {
    if (key >= bound) {
      keys[at++] = key;
    }
  }
}

/// Bitonic sort, largest first (Batcher 1968). Room up to the next power of two is used. Pairs that
/// are up to kWarp apart lie with others of their warp in 2 kWarp keys that no other warp touches.
__device__ void sort(LogitKey* keys, int count) {
  int padded = 1;
  while (padded < count) {
    padded *= 2;
  }
  for (int i = count + static_cast<int>(threadIdx.x); i < padded; i += kThreads) {
    keys[i] = kNoKey;
  }
  __syncthreads();
  for (int run = 2; run <= padded; run *= 2) {
    for (int distance = run / 2; distance > 0; distance /= 2) {
      for (int pair = static_cast<int>(threadIdx.x); pair < padded / 2; pair += kThreads) {
        const int low = (pair & ~(distance - 1)) * 2 + (pair & (distance - 1));
        const LogitKey a = keys[low];
        const LogitKey b = keys[low + distance];
        if ((a < b) == ((low & run) == 0)) {
          keys[low] = b;
          keys[low + distance] = a;
        }
      }
      const int next = distance > 1 ? distance / 2 : run;
      if (max(distance, next) > kWarp) {
        __syncthreads();
      } else {
        __syncwarp();
      }
    }
  }
  __syncthreads();
}

/// To `kept` [row, blocks of it, count], or where there is one block to `ranked`.
template <typename Source>
__global__ void __launch_bounds__(kThreads)
    rank_kernel(Source source, int count, LogitKey* kept, RankedToken* ranked) {
  __shared__ LogitKey keys[kPart];
  __shared__ int found;
  launch_dependents();
  if (threadIdx.x == 0) {
    found = 0;
  }
  wait_for_predecessor();
  const std::int64_t row = blockIdx.y;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kPart + threadIdx.x;
  LogitKey own[kEach];
  LogitKey largest = kNoKey;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    own[i] = source.at(row, first + i * kThreads);
    largest = max(largest, own[i]);
  }
  const LogitKey bound = reached_by(count, largest);
  gather(own, bound, keys, found);
  __syncthreads();
  sort(keys, found);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    const LogitKey key = i < found ? keys[i] : kNoKey;
    if (gridDim.x == 1) {
      ranked[row * count + i] = token_of(key);
    } else {
      kept[(row * gridDim.x + blockIdx.x) * count + i] = key;
    }
  }
}

constexpr int kFirstThreads = 1024;
constexpr int kFirstEach = 16;  // logits that a thread loads at a time

/// Writes to the same place of the shared memory of the cluster's first block.
__device__ __forceinline__ void put_in_first_block(LogitKey* place, LogitKey key) {
#if __CUDA_ARCH__ >= 900
  const std::uint32_t there = address_in(shared_address(place), 0);
  store_in_cluster(there, static_cast<std::uint32_t>(key));
  store_in_cluster(there + 4, static_cast<std::uint32_t>(key >> 32));
#else
  *place = key;
#endif
}

constexpr int kFirstBlocks = 8;  // of a row, where there are few

/// ranked [row]: the first token of each row, which has a cluster of gridDim.x blocks.
__global__ void __launch_bounds__(kFirstThreads)
    rank_first_kernel(LogitSource source, RankedToken* ranked) {
  __shared__ LogitKey of_warps[kFirstThreads / kWarp];
  __shared__ LogitKey of_blocks[kFirstBlocks];  // in the first block
  const auto larger = [](LogitKey a, LogitKey b) { return max(a, b); };
  const auto thread = static_cast<int>(threadIdx.x);
  const auto blocks = static_cast<int>(gridDim.x);
  launch_dependents();
  wait_for_predecessor();
  const std::int64_t row = blockIdx.y;
  LogitKey largest = kNoKey;
  for (std::int64_t first = static_cast<int>(blockIdx.x) * kFirstThreads + thread;
       first < source.columns; first += blocks * kFirstThreads * kFirstEach) {
#pragma unroll
    for (int i = 0; i < kFirstEach; ++i) {
      largest = max(largest, source.at(row, first + i * blocks * kFirstThreads));
    }
  }
  largest = over_warp(largest, larger);
  if (thread % kWarp == 0) {
    of_warps[thread / kWarp] = largest;
  }
  __syncthreads();
  if (thread < kWarp) {
    largest = over_warp(of_warps[thread], larger);
    if (thread == 0) {
      put_in_first_block(&of_blocks[cluster_rank()], largest);
    }
  }
  cluster_barrier();
  if (cluster_rank() == 0 && thread == 0) {
    for (int i = 0; i < blocks; ++i) {
      largest = max(largest, of_blocks[i]);
    }
    ranked[row] = token_of(largest);
  }
}
static_assert(kFirstThreads / kWarp == kWarp, "a warp has a key of each");

/// Whether rank_first_kernel() knows clusters here: its code may be that of older devices.
bool has_clusters() {
  return of_current_device([] {
    constexpr int kFirstWithClusters = 90;
    cudaFuncAttributes attributes{};
    device::cuda::check(cudaFuncGetAttributes(&attributes, rank_first_kernel),
                        "cudaFuncGetAttributes");
    return attributes.ptxVersion >= kFirstWithClusters;
  });
}

std::int64_t parts_of(std::int64_t columns) {
  return (columns + kPart - 1) / kPart;
}

template <typename Source>
void launch(const Source& source, std::int64_t m, std::int64_t count, LogitKey* kept,
            RankedToken* ranked, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(parts_of(source.columns)), static_cast<unsigned>(m));
  launch_dependent(rank_kernel<Source>, grid, dim3(kThreads), 0, stream, source,
                   static_cast<int>(count), kept, ranked);
}

}  // namespace

// The keys that blocks keep lie in two places by turns.
std::int64_t ranking_bytes(std::int64_t m, std::int64_t columns, std::int64_t count) {
  const std::int64_t first = parts_of(columns) * count;
  return m * (first + parts_of(first) * count) * static_cast<std::int64_t>(sizeof(LogitKey));
}

void rank(const float* logits, std::int64_t m, std::int64_t columns, std::int64_t count,
          RankedToken* ranked, void* scratch, cudaStream_t stream) {
  if (m == 0) {
    return;
  }
  if (count == 1) {
    constexpr std::int64_t kFewRows = 16;
    const unsigned blocks = m <= kFewRows && has_clusters() ? kFirstBlocks : 1;
    return launch_clusters(rank_first_kernel, dim3(blocks, static_cast<unsigned>(m)),
                           dim3(kFirstThreads), blocks, 0, stream, LogitSource{logits, columns},
                           ranked);
  }
  auto* to = static_cast<LogitKey*>(scratch);
  launch(LogitSource{logits, columns}, m, count, to, ranked, stream);
  std::int64_t kept = parts_of(columns) * count;
  LogitKey* other = to + m * kept;
  while (kept > count) {
    launch(KeySource{to, kept}, m, count, other, ranked, stream);
    kept = parts_of(kept) * count;
    std::swap(to, other);
  }
}

}  // namespace nibble::ops::cuda
