#include "device/cuda/check.h"
#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/sampling/draw_rows.h"

/// A block has a row, and each of its warps a run of tokens that lie together:
///
///   1. warps add up what their tokens weigh
///   2. the warp in whose run the draw falls finds the token there
///   3. where top_p is asked for, all add up what stands before it; if that is too much, again from
///      1 on among those tokens
namespace nibble::ops::cuda {
namespace {

constexpr int kWarps = 32;

__device__ __forceinline__ TokenWeight sum_over_warp(TokenWeight value) {
  return over_warp(value, [](TokenWeight a, TokenWeight b) { return a + b; });
}

/// Of the whole block; `sums` [kWarps] has those of the warps then.
__device__ TokenWeight sum_over_block(TokenWeight value, TokenWeight* sums) {
  value = sum_over_warp(value);
  __syncthreads();  // the last sums were read
  if (threadIdx.x == 0) {
    sums[threadIdx.y] = value;
  }
  __syncthreads();
  return sum_over_warp(sums[threadIdx.x]);
}

struct Bound {
  float logit;
  std::int64_t token;
  __device__ bool stands_behind(float other, std::int64_t i) const {
    return other > logit || (other == logit && i < token);
  }
};

__global__ void __launch_bounds__(kWarp* kWarps)
    draw_rows_kernel(const float* logits, std::int64_t columns, const RankedToken* firsts,
                     std::int64_t count, const TokenDraw* draws, RankedToken* all_drawn) {
  __shared__ TokenWeight sums[kWarps];
  __shared__ std::int64_t found;
  const std::int64_t row = blockIdx.x;
  const TokenDraw draw = draws[row];
  if (!(draw.temperature > 0) || draw.top_k != 0) {
    return;
  }
  const RankedToken first = firsts[row * count];
  if (first.id < 0 || isinf(first.logit)) {
    if (threadIdx.x == 0 && threadIdx.y == 0) {
      all_drawn[row] = first;
    }
    return;
  }
  logits += row * columns;
  const int lane = static_cast<int>(threadIdx.x);
  const int warp = static_cast<int>(threadIdx.y);
  const std::int64_t run = (columns + kWarps * kWarp - 1) / (kWarps * kWarp) * kWarp;
  const std::int64_t begin = warp * run;
  const std::int64_t end = min(columns, begin + run);
  const TokenWeight least = share_of(kFirstWeight, static_cast<double>(draw.min_p));
  TokenWeight wanted = 0;
  Bound bound{0.0f, -1};
  double uniform = draw.uniform;
  for (;;) {
    // What a token weighs that may come.
    const auto weight = [&](std::int64_t i, TokenWeight& before) {
      const float logit = logits[i];
      before = weight_of(logit, first.logit);
      if (before < least || (bound.token >= 0 && !bound.stands_behind(logit, i))) {
        return TokenWeight{0};
      }
      return draw.temperature == 1.0f ? before : weight_of(logit, first.logit, draw.temperature);
    };
    TokenWeight total = 0;
    TokenWeight mine = 0;
    for (std::int64_t i = begin + lane; i < end; i += kWarp) {
      TokenWeight before = 0;
      mine += weight(i, before);
      total += before;
    }
    if (draw.top_p < 1.0f && bound.token < 0) {
      wanted = share_of(sum_over_block(total, sums), static_cast<double>(draw.top_p));
    }
    const TokenWeight left = share_of(sum_over_block(mine, sums), uniform);
    TokenWeight passed = 0;
    for (int i = 0; i < warp; ++i) {
      passed += sums[i];
    }
    if (left >= passed && left - passed < sums[warp]) {
      for (std::int64_t at = begin;; at += kWarp) {
        TokenWeight before = 0;
        const TokenWeight own = at + lane < end ? weight(at + lane, before) : 0;
        TokenWeight until = own;  // of the lanes up to this one
#pragma unroll
        for (int distance = 1; distance < kWarp; distance *= 2) {
          const TokenWeight other = __shfl_up_sync(kAllLanes, until, distance);
          until += lane >= distance ? other : 0;
        }
        const unsigned reached = __ballot_sync(kAllLanes, left < passed + until);
        if (reached != 0) {
          if (lane == 0) {
            found = at + __ffs(static_cast<int>(reached)) - 1;
          }
          break;
        }
        passed += __shfl_sync(kAllLanes, until, kWarp - 1);
      }
    }
    __syncthreads();
    const Bound drawn{logits[found], found};
    TokenWeight above = 0;
    if (draw.top_p < 1.0f) {
      for (std::int64_t i = begin + lane; i < end; i += kWarp) {
        const float logit = logits[i];
        above += drawn.stands_behind(logit, i) ? weight_of(logit, first.logit) : 0;
      }
      above = sum_over_block(above, sums);
    }
    if (above == 0 || above < wanted) {
      if (lane == 0 && warp == 0) {
        all_drawn[row] = {static_cast<std::int32_t>(drawn.token), drawn.logit};
      }
      return;
    }
    bound = drawn;
    uniform = next_uniform(uniform);
    __syncthreads();  // `found` was read
  }
}

}  // namespace

void draw_rows(const float* logits, std::int64_t m, std::int64_t columns, const RankedToken* first,
               std::int64_t count, const TokenDraw* draws, RankedToken* drawn,
               cudaStream_t stream) {
  if (m == 0) {
    return;
  }
  draw_rows_kernel<<<static_cast<unsigned>(m), dim3(kWarp, kWarps), 0, stream>>>(
      logits, columns, first, count, draws, drawn);
  device::cuda::check_launch("draw_rows_kernel");
}

}  // namespace nibble::ops::cuda
