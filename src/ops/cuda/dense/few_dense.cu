#include <algorithm>

#include "ops/cuda/dense/few_dense.h"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/mma.cuh"
#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/gemm/half_results.cuh"

/// The weight is the left operand of m16n8k16, tokens are the columns of the right one. Which input
/// stands at which place along k is free as long as both operands agree: lane 4g + t takes the
/// inputs 8t .. 8t + 7 of 32 of rows g and g + 8 and of token g, by loads of 16 bytes, for two
/// products.
///
/// A block takes one tile of 16 rows after another, and its warps take chunks of the inputs in
/// turns. The loads of a tile begin while the one before it is multiplied, and those of a launch
/// while the kernel before it ends.
namespace nibble::ops::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kTileRows = 16;
constexpr int kSteps = 2;                  // of 32 inputs in a chunk
constexpr int kChunk = 32 * kSteps;        // inputs that a warp loads at a time: 128 bytes of a row
constexpr int kSumStride = kTileRows + 4;  // keeps lanes apart in the banks

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
  int chunks_ahead;
  bool adds;
  HalfOutput half;

  __device__ int tiles() const { return (n + kTileRows - 1) / kTileRows; }
  __device__ int chunks() const { return (k + kChunk - 1) / kChunk; }
};

__device__ __forceinline__ void prefetch_to_l2(const std::uint16_t* source) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(source));
}

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

/// What a warp reads of the weight, chunk by chunk and tile by tile. Each tile has `steps` of them;
/// where the inputs end before, and after the last tile, they are zeros.
class WeightStream {
 public:
  __device__ WeightStream(const Arguments& a, int steps, int warp, int lane)
      : a_(a), steps_(steps), warp_(warp), lane_(lane), tile_(static_cast<int>(blockIdx.x)) {}

  __device__ void load(Chunk& chunk) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint16_t* row = row_of(lane_ / 4 + 8 * half);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const int k = first_input() + 32 * step + 8 * (lane_ % 4);
        chunk.rows[half][step] = tile_ < a_.tiles() && k < a_.k ? load_stream(row + k) : uint4{};
      }
    }
    advance();
  }
  /// The next chunks, without a move.
  __device__ void prefetch(int chunks) const {
    WeightStream next = *this;
    for (int i = 0; i < chunks && next.tile_ < a_.tiles(); ++i) {
      if (lane_ < kTileRows && next.first_input() < a_.k) {
        prefetch_to_l2(next.row_of(lane_) + next.first_input());
      }
      next.advance();
    }
  }

 private:
  __device__ int first_input() const {
    return (step_ * kWarps + warp_) * kChunk;
  }
  __device__ const std::uint16_t* row_of(int row) const {
    return a_.weight + static_cast<std::size_t>(min(tile_ * kTileRows + row, a_.n - 1)) * a_.k;
  }
  __device__ void advance() {
    if (++step_ == steps_) {
      step_ = 0;
      tile_ += static_cast<int>(gridDim.x);
    }
  }

  const Arguments& a_;
  int steps_;
  int warp_;
  int lane_;
  int tile_;
  int step_ = 0;
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

/// Of a tile, by warp, token and row.
template <int kColumns>
struct TileSums {
  float of[kWarps][8 * kColumns][kSumStride];

  __device__ void put(const float (&mine)[kColumns][4], int warp, int lane) {
    const int row = lane / 4;
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
      const int token = 8 * column + 2 * (lane % 4);
      of[warp][token][row] = mine[column][0];
      of[warp][token + 1][row] = mine[column][1];
      of[warp][token][row + 8] = mine[column][2];
      of[warp][token + 1][row + 8] = mine[column][3];
    }
  }
  /// Adds them up to the results of the tile.
  __device__ void finish(const Arguments& a, int tile) const {
    for (int i = static_cast<int>(threadIdx.x); i < kTileRows * a.m; i += kThreads) {
      const int row = i % kTileRows;
      const int token = i / kTileRows;
      const int n = tile * kTileRows + row;
      if (n >= a.n) {
        continue;
      }
      float* const y = a.y + static_cast<std::size_t>(token) * a.ldy + n;
      const float before = a.adds ? *y : 0.0f;
      const float bias = a.bias != nullptr ? a.bias[n] : 0.0f;
      float sum = 0.0f;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) {
        sum += of[warp][token][row];
      }
      const float result = before + (sum + bias);
      if (a.y == nullptr) {
        put_half(a.half, token, n, result);
      } else {
        *y = result;
      }
    }
  }
};

template <bool kBf16, int kColumns>
__global__ void __launch_bounds__(kThreads, 2) few_dense_kernel(const Arguments a) {
  constexpr int kStages = kColumns > 2 ? 3 : 4;  // chunks on their way, as far as registers suffice
  __shared__ TileSums<kColumns> sums[2];         // in turns, so that warps meet once in a tile
  launch_dependents();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int chunks = a.chunks();
  const int steps = (chunks + kWarps * kStages - 1) / (kWarps * kStages) * kStages;

  WeightStream weights(a, steps, warp, lane);
  Chunk ring[kStages];
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) {
    weights.load(ring[stage]);
  }
  weights.prefetch(a.chunks_ahead);
  wait_for_predecessor();
  int turn = 0;
  for (int tile = static_cast<int>(blockIdx.x); tile < a.tiles();
       tile += static_cast<int>(gridDim.x)) {
    float mine[kColumns][4] = {};
    for (int step = 0; step < steps; step += kStages) {
#pragma unroll
      for (int stage = 0; stage < kStages; ++stage) {
        const int chunk = (step + stage) * kWarps + warp;
        if (chunk < chunks) {
          multiply<kBf16>(mine, ring[stage], Inputs<kColumns>(a, chunk, lane));
        }
        weights.load(ring[stage]);
      }
    }
    sums[turn].put(mine, warp, lane);
    __syncthreads();
    sums[turn].finish(a, tile);
    turn = 1 - turn;
  }
}

template <bool kBf16>
void run(const Arguments& a, int blocks, cudaStream_t stream) {
  const int tiles = (a.n + kTileRows - 1) / kTileRows;
  const dim3 grid(static_cast<unsigned>(std::min(tiles, blocks)));
  const auto launch = [&](auto kernel) {
    launch_dependent(kernel, grid, dim3(kThreads), 0, stream, a);
  };
  if (a.m <= 8) {
    return launch(few_dense_kernel<kBf16, 1>);
  }
  a.m <= 16 ? launch(few_dense_kernel<kBf16, 2>) : launch(few_dense_kernel<kBf16, 4>);
}

}  // namespace

void few_dense(const FewDenseProblem& problem, const FewDensePlan& plan, cudaStream_t stream) {
  require_unpaired({.y = problem.y, .half = problem.half, .adds = problem.adds}, problem.weight.n);
  const Arguments a{static_cast<const std::uint16_t*>(problem.weight.data),
                    static_cast<const std::uint16_t*>(problem.x),
                    problem.bias,
                    problem.y,
                    static_cast<int>(problem.weight.n),
                    static_cast<int>(problem.weight.k),
                    static_cast<int>(problem.m),
                    static_cast<int>(problem.ldx),
                    static_cast<int>(problem.ldy),
                    plan.chunks_ahead,
                    problem.adds,
                    problem.half};
  problem.weight.type == core::DType::kBF16 ? run<true>(a, plan.blocks, stream)
                                            : run<false>(a, plan.blocks, stream);
}

}  // namespace nibble::ops::cuda
