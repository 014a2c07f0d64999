#include <algorithm>

#include "ops/cuda/dense/few_dense.h"
#include "ops/cuda/device_code/cluster.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/mma.cuh"
#include "ops/cuda/device_code/reduce.cuh"

/// The weight is the left operand of m16n8k16, tokens are the columns of the right one. Which input
/// stands at which place along k is free as long as both operands agree: lane 4g + t takes the
/// inputs 8t .. 8t + 7 of 32 of rows g and g + 8 and of token g, by loads of 16 bytes, for two
/// products.
namespace nibble::ops::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kTileRows = 16;
constexpr int kSteps = 2;            // of 32 inputs in a chunk
constexpr int kChunk = 32 * kSteps;  // inputs that a warp loads at a time: 128 bytes of a row
constexpr int kSumPadding = 4;       // keeps lanes apart in the banks
constexpr int kSumsOfToken = kWarps * (kTileRows + kSumPadding);

struct Arguments {
  const std::uint16_t* weight;
  const std::uint16_t* x;
  const float* bias;
  float* y;
  int n;
  int k;
  int m;
  int ldx;
  int ldy;
  int row_warps;
  int k_warps;
  int cluster;
  bool adds;

  __device__ int rows() const { return row_warps * kTileRows; }
  __device__ int sum_stride() const { return rows() + kSumPadding; }
};

/// Of what is read once.
__device__ __forceinline__ uint4 load_stream(const std::uint16_t* source) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(source));
  return value;
}

template <bool kBf16>
__device__ __forceinline__ void multiply_add(float (&c)[4], const std::uint32_t (&a)[4],
                                             std::uint32_t b0, std::uint32_t b1) {
  if constexpr (kBf16) {
    mma_bf16(c, a, b0, b1);
  } else {
    mma_f16(c, a, b0, b1);
  }
}

/// A lane's part of 16 rows and kChunk inputs: rows g and g + 8.
struct Chunk {
  uint4 rows[2][kSteps];
};

/// The rows of a warp.
class WeightRows {
 public:
  __device__ WeightRows(const Arguments& a, int first, int lane) : k_(a.k), at_(8 * (lane % 4)) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = min(first + lane / 4 + 8 * half, a.n - 1);
      rows_[half] = a.weight + static_cast<std::size_t>(row) * a.k;
    }
  }
  __device__ void load(Chunk& chunk, int number) const {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int k = number * kChunk + 32 * step + at_;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        chunk.rows[half][step] = k < k_ ? load_stream(rows_[half] + k) : uint4{};
      }
    }
  }

 private:
  const std::uint16_t* rows_[2];
  int k_;
  int at_;
};

/// The inputs of 8 kColumns tokens. Lanes of odd tokens load the steps in the other order, so that
/// the tokens of eight lanes lie in different banks of the L1 cache.
template <int kColumns>
struct Inputs {
  uint4 values[kColumns][kSteps];

  __device__ Inputs(const Arguments& a, int number, int lane) {
    const int g = lane / 4;
    const int swap = g % 2;
    const std::uint16_t* x = a.x + number * kChunk + 8 * (lane % 4);
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
      const int token = 8 * column + g;
      uint4 first = {};
      uint4 second = {};
      if (token < a.m) {
        const std::uint16_t* from = x + token * a.ldx;
        first = *reinterpret_cast<const uint4*>(from + 32 * swap);
        second = *reinterpret_cast<const uint4*>(from + 32 * (1 - swap));
      }
      values[column][0] = swap != 0 ? second : first;
      values[column][1] = swap != 0 ? first : second;
    }
  }
};

template <bool kBf16, int kColumns>
__device__ __forceinline__ void multiply(float (&sums)[kColumns][4], const Chunk& chunk,
                                         const Inputs<kColumns>& x) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const uint4 low = chunk.rows[0][step];
    const uint4 high = chunk.rows[1][step];
    const std::uint32_t first[4] = {low.x, high.x, low.y, high.y};
    const std::uint32_t second[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
      const uint4 b = x.values[column][step];
      multiply_add<kBf16>(sums[column], first, b.x, b.y);
      multiply_add<kBf16>(sums[column], second, b.z, b.w);
    }
  }
}

/// A float of the shared memory of block `rank` of the cluster; `place` is that of the same float
/// in this block.
__device__ __forceinline__ float read_in_cluster(const float* place, int rank, int cluster) {
#if __CUDA_ARCH__ >= 900
  if (cluster > 1) {
    const auto local = static_cast<std::uint32_t>(__cvta_generic_to_shared(place));
    float value;
    asm volatile("ld.shared::cluster.f32 %0, [%1];"
                 : "=f"(value)
                 : "r"(address_in(local, rank))
                 : "memory");
    return value;
  }
#endif
  return *place;
}

__device__ __forceinline__ void meet(int cluster) {
  if (cluster > 1) {
    cluster_barrier();
  } else {
    __syncthreads();
  }
}

/// sums[slice of the block][token][row].
template <int kColumns>
__device__ __forceinline__ void put_sums(float* sums, const Arguments& a,
                                         const float (&mine)[kColumns][4], int row_warp, int k_warp,
                                         int lane) {
  const int row = row_warp * kTileRows + lane / 4;
#pragma unroll
  for (int column = 0; column < kColumns; ++column) {
    const int token = k_warp * 8 * kColumns + 8 * column + 2 * (lane % 4);
    float* to = sums + token * a.sum_stride() + row;
    to[0] = mine[column][0];
    to[a.sum_stride()] = mine[column][1];
    to[8] = mine[column][2];
    to[a.sum_stride() + 8] = mine[column][3];
  }
}

/// This block's share of the results of the cluster's rows.
template <int kColumns>
__device__ __forceinline__ void finish(const float* sums, const Arguments& a, int group, int rank) {
  const int rows = a.rows();
  for (int i = rank * kThreads + static_cast<int>(threadIdx.x); i < rows * a.m;
       i += a.cluster * kThreads) {
    const int row = i % rows;
    const int token = i / rows;
    const int n = group * rows + row;
    if (n >= a.n) {
      continue;
    }
    float& y = a.y[static_cast<std::size_t>(token) * a.ldy + n];
    const float before = a.adds ? y : 0.0f;
    const float bias = a.bias != nullptr ? a.bias[n] : 0.0f;
    float sum = 0.0f;
    for (int block = 0; block < a.cluster; ++block) {
      for (int slice = 0; slice < a.k_warps; ++slice) {
        const int line = slice * 8 * kColumns + token;
        sum += read_in_cluster(sums + line * a.sum_stride() + row, block, a.cluster);
      }
    }
    y = before + (sum + bias);
  }
}

template <bool kBf16, int kColumns>
__global__ void __launch_bounds__(kThreads, 2) few_dense_kernel(Arguments a) {
  constexpr int kStages = kColumns > 2 ? 3 : 4;  // chunks on their way, as far as registers suffice
  __shared__ float sums[8 * kColumns * kSumsOfToken];
  launch_dependents();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int rank = static_cast<int>(blockIdx.x) % a.cluster;
  const int group = static_cast<int>(blockIdx.x) / a.cluster;
  const int row_warp = warp % a.row_warps;
  const int k_warp = warp / a.row_warps;
  const int slices = a.k_warps * a.cluster;
  const int slice = rank * a.k_warps + k_warp;
  const int chunks = (a.k + kChunk - 1) / kChunk;
  const int begin = slice * chunks / slices;
  const int end = (slice + 1) * chunks / slices;

  const WeightRows rows(a, group * a.rows() + row_warp * kTileRows, lane);
  Chunk ring[kStages];
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) {
    if (begin + stage < end) {
      rows.load(ring[stage], begin + stage);
    }
  }
  wait_for_predecessor();
  float mine[kColumns][4] = {};
  for (int number = begin; number < end; number += kStages) {
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
      const int here = number + stage;
      if (here < end) {
        multiply<kBf16>(mine, ring[stage], Inputs<kColumns>(a, here, lane));
        if (here + kStages < end) {
          rows.load(ring[stage], here + kStages);
        }
      }
    }
  }
  put_sums<kColumns>(sums, a, mine, row_warp, k_warp, lane);
  meet(a.cluster);
  finish<kColumns>(sums, a, group, rank);
  if (a.cluster > 1) {
    cluster_barrier();  // others may still read this block's sums
  }
}

template <bool kBf16>
void run(const Arguments& a, cudaStream_t stream) {
  const int rows = a.row_warps * kTileRows;
  const dim3 grid(static_cast<unsigned>((a.n + rows - 1) / rows * a.cluster));
  const auto launch = [&](auto kernel) {
    launch_clusters(kernel, grid, dim3(kThreads), static_cast<unsigned>(a.cluster), 0, stream, a);
  };
  if (a.m <= 8) {
    return launch(few_dense_kernel<kBf16, 1>);
  }
  a.m <= 16 ? launch(few_dense_kernel<kBf16, 2>) : launch(few_dense_kernel<kBf16, 4>);
}

}  // namespace

FewDensePlan plan_few_dense(std::int64_t n, int multiprocessors, bool clusters) {
  const auto blocks = [&](const FewDensePlan& plan) {
    const std::int64_t rows = std::int64_t{plan.row_warps} * kTileRows;
    return (n + rows - 1) / rows * plan.cluster;
  };
  const std::int64_t wanted = std::int64_t{multiprocessors} * 5 / 4;
  FewDensePlan plan;
  plan.clusters = clusters;
  while (blocks(plan) < wanted && (clusters ? plan.cluster < 4 : plan.row_warps > 1)) {
    clusters ? plan.cluster *= 2 : plan.row_warps /= 2;
  }
  return plan;
}

void few_dense(const FewDenseProblem& problem, const FewDensePlan& plan, cudaStream_t stream) {
  Arguments a{static_cast<const std::uint16_t*>(problem.weight.data),
              static_cast<const std::uint16_t*>(problem.x),
              problem.bias,
              problem.y,
              static_cast<int>(problem.weight.n),
              static_cast<int>(problem.weight.k),
              static_cast<int>(problem.m),
              static_cast<int>(problem.ldx),
              static_cast<int>(problem.ldy),
              plan.row_warps,
              kWarps / plan.row_warps,
              plan.cluster,
              problem.adds};
  // With more tokens all warps share inputs, which each block reads, and twice as many blocks
  // divide the slices.
  if (problem.m > 16 && plan.clusters && a.k_warps == 2) {
    a.row_warps *= 2;
    a.k_warps = 1;
    a.cluster *= 2;
  }
  problem.weight.type == core::DType::kBF16 ? run<true>(a, stream) : run<false>(a, stream);
}

}  // namespace nibble::ops::cuda
