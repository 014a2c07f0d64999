#include <algorithm>

#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/sampling/logit_key.cuh"
#include "ops/cuda/sampling/ranking.h"

/// Every block sorts kPart keys of a row and keeps the largest; what all blocks of a row have kept
/// is sorted in the same way, until one block has it all.
namespace nibble::ops::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kPart = 4096;

struct LogitSource {
  const float* logits;
  std::int64_t columns;
  __device__ LogitKey at(std::int64_t row, std::int64_t column) const {
    return column < columns
               ? key_of(logits[row * columns + column], static_cast<std::uint32_t>(column))
               : 0;
  }
};

struct KeySource {
  const LogitKey* keys;
  std::int64_t columns;
  __device__ LogitKey at(std::int64_t row, std::int64_t column) const {
    return column < columns ? keys[row * columns + column] : 0;
  }
};

/// Bitonic sort, largest first (Batcher 1968).
__device__ void sort_part(LogitKey* keys) {
  for (int run = 2; run <= kPart; run *= 2) {
    for (int distance = run / 2; distance > 0; distance /= 2) {
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kPart / 2 / kThreads; ++i) {
        const int pair = static_cast<int>(threadIdx.x) + i * kThreads;
        const int low = (pair & ~(distance - 1)) * 2 + (pair & (distance - 1));
        const LogitKey a = keys[low];
        const LogitKey b = keys[low + distance];
        if ((a < b) == ((low & run) == 0)) {
          keys[low] = b;
          keys[low + distance] = a;
        }
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
  launch_dependents();
  wait_for_predecessor();
  const std::int64_t row = blockIdx.y;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kPart;
#pragma unroll
  for (int i = 0; i < kPart; i += kThreads) {
    keys[i + threadIdx.x] = source.at(row, first + i + threadIdx.x);
  }
  sort_part(keys);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    if (gridDim.x == 1) {
      ranked[row * count + i] = token_of(keys[i]);
    } else {
      kept[(row * gridDim.x + blockIdx.x) * count + i] = keys[i];
    }
  }
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
