#include <cmath>

#include "ops/cuda/attention/attention.h"
#include "ops/cuda/attention/fragments.cuh"
#include "ops/cuda/attention/packed/packed_arguments.h"
#include "ops/cuda/attention/packed/packed_float.h"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/reduce.cuh"

/// A block takes a tile and a head, each of its warps one row after another. Lanes have the
/// elements of a head; a few keys are on their way at a time.
namespace nibble::ops::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kKeys = 4;

using Arguments = packed::FloatArguments;

// Elements lane, lane + 32, ... of a head; zeros behind its end.
template <int kEach>
struct Elements {
  float x[kEach];

  __device__ __forceinline__ static Elements load(const float* head, int dim) {
    Elements elements;
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int i = static_cast<int>(threadIdx.x) % kWarp + e * kWarp;
      elements.x[e] = i < dim ? head[i] : 0.0f;
    }
    return elements;
  }

  __device__ __forceinline__ float product(const Elements& other) const {
    float sum = 0.0f;
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      sum = fmaf(x[e], other.x[e], sum);
    }
    return warp_sum(sum);
  }
};

// One query row of a head against the rows of its text; a warp.
template <int kEach>
__device__ void attend_row(const Arguments& a, const PackedTile& tile, std::int64_t row, int head) {
  using Vector = Elements<kEach>;
  const int kv_column = head / a.group * a.head_dim;
  const float* const text = a.qkv + tile.first * a.stride + kv_column;
  const Vector q = Vector::load(a.qkv + row * a.stride + head * a.head_dim, a.head_dim);
  Vector out{};
  float largest = -INFINITY;
  float sum = 0.0f;
  for (int first = 0; first < tile.length; first += kKeys) {
    // Behind the text's end its last row stands, with no weight.
    const auto row_of = [&](int key) {
      return text + min(first + key, tile.length - 1) * a.stride;
    };
    float weights[kKeys];
    float now = largest;
#pragma unroll
    for (int key = 0; key < kKeys; ++key) {
      const float product = q.product(Vector::load(row_of(key) + a.keys_at, a.head_dim));
      weights[key] = first + key < tile.length ? product * a.scale : -INFINITY;
      now = fmaxf(now, weights[key]);
    }
    const float change = power_of_two(largest - now);
    largest = now;
    sum *= change;
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      out.x[e] *= change;
    }
#pragma unroll
    for (int key = 0; key < kKeys; ++key) {
      const float weight = power_of_two(weights[key] - now);
      const Vector value = Vector::load(row_of(key) + a.values_at, a.head_dim);
      sum += weight;
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        out.x[e] = fmaf(weight, value.x[e], out.x[e]);
      }
    }
  }
  float* const y = a.y + (row * a.heads + head) * a.head_dim;
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    const int i = static_cast<int>(threadIdx.x) % kWarp + e * kWarp;
    if (i < a.head_dim) {
      y[i] = out.x[e] / sum;
    }
  }
}

template <int kEach>
__global__ void __launch_bounds__(kWarps* kWarp) float_kernel(Arguments a) {
  launch_dependents();
  const int number = static_cast<int>(blockIdx.x);
  const PackedTile tile = a.tiles[number / a.heads];
  wait_for_predecessor();
  for (int at = static_cast<int>(threadIdx.x) / kWarp; at < tile.rows; at += kWarps) {
    attend_row<kEach>(a, tile, tile.row + at, number % a.heads);
  }
}

template <int kEach>
void run(const Arguments& arguments, std::int64_t tiles, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(tiles * arguments.heads);
  launch_dependent(float_kernel<kEach>, dim3(blocks), dim3(kWarps * kWarp), 0, stream, arguments);
}

}  // namespace

void packed_attention_float(const PackedAttention& shape, const float* qkv, std::int64_t stride,
                            const PackedTile* tiles, std::int64_t count, float* y,
                            cudaStream_t stream) {
  const Arguments arguments = packed::arguments_of(shape, qkv, stride, tiles, y);
  if (count == 0) {
    return;
  }
  if (shape.head_dim <= 2 * kWarp) {
    run<2>(arguments, count, stream);
  } else if (shape.head_dim <= 4 * kWarp) {
    run<4>(arguments, count, stream);
  } else {
    run<kMaxHeadDim / kWarp>(arguments, count, stream);
  }
}

}  // namespace nibble::ops::cuda
