#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/elementwise/post_norm_rows.h"
#include "ops/cuda/elementwise/row_norm.cuh"
#include "ops/cuda/elementwise/warp_rows.cuh"

namespace nibble::ops::cuda {
namespace {

constexpr int kMostChunks = 8;  // of 128 columns

struct Arguments {
  const uint4* x = nullptr;
  const uint4* delta = nullptr;
  NormWeights norm;
  uint4* y = nullptr;
  RowCodes codes;
  std::int32_t* saturated[2] = {};  // of x and delta, each or null
  int rows = 0;
};

__device__ __forceinline__ float4 operator+(float4 a, float4 b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

/// V times 256 columns of a row.
template <int V>
class Row {
 public:
  static constexpr int kWords = V * kWarpColumns / 8;  // of a row in memory

  __device__ Row(const Arguments& a, std::int64_t row) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      x_[v] = a.x[row * kWords + 32 * v + lane()];
      delta_[v] = a.delta[row * kWords + 32 * v + lane()];
    }
  }

  __device__ static int lane() {
    return static_cast<int>(threadIdx.x) % kWarp;
  }

  __device__ void note_ends(const Arguments& a) const {
    note(a.saturated[0], x_);
    note(a.saturated[1], delta_);
  }

  __device__ void sum(Eight (&values)[V]) const {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const Eight x = floats_of(x_[v]);
      const Eight delta = floats_of(delta_[v]);
      values[v] = {x.first + delta.first, x.second + delta.second};
    }
  }

 private:
  __device__ static void note(std::int32_t* saturated, const uint4 (&words)[V]) {
    bool found = false;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      found =
          found || has_saturated(words[v].x, words[v].y) || has_saturated(words[v].z, words[v].w);
    }
    if (found && saturated != nullptr) {
      *saturated = 1;
    }
  }

  uint4 x_[V];
  uint4 delta_[V];
};

/// The sum over a row of part(four columns), in the order of row_norm.cuh: over chunks of 128
/// columns, in which a lane there has four, then over chunks.
template <int V, typename Part>
__device__ __forceinline__ float row_sum(const Eight (&values)[V], const Part& part) {
  float chunks[kMostChunks] = {};
#pragma unroll
  for (int v = 0; v < V; ++v) {
    float first = part(values[v].first);
    float second = part(values[v].second);
#pragma unroll
    for (int distance = kWarp / 4; distance > 0; distance /= 2) {
      first += __shfl_xor_sync(kAllLanes, first, distance);
      second += __shfl_xor_sync(kAllLanes, second, distance);
    }
    const float mine = first + second;
    const float other = __shfl_xor_sync(kAllLanes, mine, kWarp / 2);
    const bool lower = threadIdx.x % kWarp < kWarp / 2;
    chunks[2 * v] = lower ? mine : other;
    chunks[2 * v + 1] = lower ? other : mine;
  }
#pragma unroll
  for (int distance = kMostChunks / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int i = 0; i < distance; ++i) {
      chunks[i] += chunks[i + distance];
    }
  }
  return chunks[0];
}

template <int V>
__device__ __forceinline__ Normalizer normalizer_of(const Eight (&values)[V], float eps) {
  constexpr float kCount = V * kWarpColumns;
  const float mean = row_sum(values, [](float4 x) { return x.x + x.y + (x.z + x.w); }) / kCount;
  const float sum = row_sum(values, [&](float4 x) {
    return squares({x.x - mean, x.y - mean, x.z - mean, x.w - mean});
  });
  return {mean, rms_factor(sum, kCount, eps)};
}

/// The norm's weights of a lane's columns.
template <int V>
class Weights {
 public:
  __device__ explicit Weights(const NormWeights& norm) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = (kWarpColumns * v + 8 * Row<V>::lane()) / 4 + half;
        weight_[v][half] = reinterpret_cast<const float4*>(norm.weight)[at];
        bias_[v][half] = reinterpret_cast<const float4*>(norm.bias)[at];
      }
    }
  }

  /// Normalizes in place; the values become what float16 holds, which is returned.
  __device__ void apply(const Normalizer& row, Eight (&values)[V], uint4 (&halves)[V]) const {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float4 first = normalized(row, values[v].first, weight_[v][0], bias_[v][0]);
      const float4 second = normalized(row, values[v].second, weight_[v][1], bias_[v][1]);
      halves[v] = {saturated_half2(first.x, first.y), saturated_half2(first.z, first.w),
                   saturated_half2(second.x, second.y), saturated_half2(second.z, second.w)};
      values[v] = floats_of(halves[v]);
    }
  }

 private:
  float4 weight_[V][2];
  float4 bias_[V][2];
};

template <int V>
__device__ __forceinline__ Spread spread_of(const Eight (&values)[V]) {
  Spread spread;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    Int8RowSink::widen_by(spread, values[v].first);
    Int8RowSink::widen_by(spread, values[v].second);
  }
  spread.magnitude = __reduce_max_sync(kAllLanes, spread.magnitude);
  return spread;
}

template <int V>
__global__ void __launch_bounds__(kWarpRowThreads) norm_rows(Arguments a) {
  launch_dependents();
  const Weights<V> weights(a.norm);
  wait_for_predecessor();
  each_warp_row(a.rows, [&](int row) {
    const Row<V> held(a, row);
    held.note_ends(a);
    Eight values[V];
    held.sum(values);
    uint4 halves[V];
    weights.apply(normalizer_of(values, a.norm.eps), values, halves);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      a.y[static_cast<std::int64_t>(row) * Row<V>::kWords + 32 * v + Row<V>::lane()] = halves[v];
    }
    put_codes<V>(a.codes, row, spread_of(values), [&](int v) { return values[v]; });
  });
}

}  // namespace

bool serves_post_norm_rows(const MatrixView& x, const MatrixView& delta, const NormWeights& norm,
                           const MutableMatrixView& y, const InputTarget& target, std::int64_t m,
                           std::int64_t columns) {
  const bool aligned = is_aligned(x.data) && is_aligned(delta.data) && is_aligned(y.data) &&
                       is_aligned(norm.weight) && is_aligned(norm.bias) && is_aligned(target.codes);
  return m >= kFewestWarpRows && columns % kWarpColumns == 0 && columns <= kMostChunks * kChunk &&
         takes_row_codes(target) && x.half && delta.half && y.half && norm.kind != NormKind::kRms &&
         norm.bias != nullptr && aligned;
}

void post_norm_rows(const MatrixView& x, const MatrixView& delta, const NormWeights& norm,
                    const MutableMatrixView& y, const InputTarget& target, std::int64_t m,
                    std::int64_t columns, cudaStream_t stream) {
  const Arguments arguments{.x = static_cast<const uint4*>(x.data),
                            .delta = static_cast<const uint4*>(delta.data),
                            .norm = norm,
                            .y = static_cast<uint4*>(y.data),
                            .codes = row_codes(target),
                            .saturated = {x.saturated, delta.saturated},
                            .rows = static_cast<int>(m)};
  const auto run = [&](auto kernel) { launch_warp_rows(kernel, arguments, m, stream); };
  switch (columns / kWarpColumns) {
    case 1:
      return run(norm_rows<1>);
    case 2:
      return run(norm_rows<2>);
    case 3:
      return run(norm_rows<3>);
    default:
      return run(norm_rows<4>);
  }
}

}  // namespace nibble::ops::cuda
