#include <cmath>

#include "ops/cuda/attention/attention.h"
#include "ops/cuda/attention/fragments.cuh"
#include "ops/cuda/attention/packed/packed_arguments.h"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/elementwise/matrix_view.h"

namespace nibble::ops::cuda::packed {
namespace {

constexpr int kWarps = 4;
constexpr int kEach = static_cast<int>(kMaxHeadDim) / kWarp;

// Says where the row's own query, key or value is at the end of the range of float16.
__device__ void note_saturation(const Arguments& a, std::int64_t row, int head) {
  const int kv_column = head / a.group * a.head_dim;
  const int columns[3] = {head * a.head_dim, a.keys_at + kv_column, a.values_at + kv_column};
  for (const int column : columns) {
    const __half* const x = a.qkv + row * a.stride + column;
    for (int i = static_cast<int>(threadIdx.x) % kWarp; i < a.head_dim; i += kWarp) {
      if (has_saturated(__half_as_ushort(x[i]), 0)) {
        *a.saturated = 1;
      }
    }
  }
}

// One query row of a head against the rows of its text; a warp.
__device__ void attend_row(const Arguments& a, const PackedTile& tile, std::int64_t row, int head) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int kv_column = head / a.group * a.head_dim;
  const __half* const q = a.qkv + row * a.stride + head * a.head_dim;
  const __half* k = a.qkv + tile.first * a.stride + a.keys_at + kv_column;
  const __half* v = a.qkv + tile.first * a.stride + a.values_at + kv_column;
  float out[kEach] = {};
  float largest = -INFINITY;
  float sum = 0.0f;
  for (int key = 0; key < tile.length; ++key, k += a.stride, v += a.stride) {
    float product = 0.0f;
    for (int i = lane; i < a.head_dim; i += kWarp) {
      product = fmaf(__half2float(q[i]), __half2float(k[i]), product);
    }
    const float score = warp_sum(product) * a.scale;
    const float now = fmaxf(largest, score);
    const float change = power_of_two(largest - now);
    const float weight = power_of_two(score - now);
    largest = now;
    sum = fmaf(sum, change, weight);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int i = lane + e * kWarp;
      if (i < a.head_dim) {
        out[e] = fmaf(out[e], change, weight * __half2float(v[i]));
      }
    }
  }
  __half* const y = a.y + (row * a.heads + head) * a.head_dim;
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    const int i = lane + e * kWarp;
    if (i < a.head_dim) {
      y[i] = __float2half_rn(out[e] / sum);
    }
  }
}

__global__ void __launch_bounds__(kWarps* kWarp) plain_kernel(Arguments a) {
  launch_dependents();
  const int number = static_cast<int>(blockIdx.x);
  const PackedTile tile = a.tiles[number / a.heads];
  wait_for_predecessor();
  for (int at = static_cast<int>(threadIdx.x) / kWarp; at < tile.rows; at += kWarps) {
    attend_row(a, tile, tile.row + at, number % a.heads);
    if (a.saturated != nullptr) {
      note_saturation(a, tile.row + at, number % a.heads);
    }
  }
}

}  // namespace

void attend_plain(const Arguments& arguments, std::int64_t tiles, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(tiles * arguments.heads);
  launch_dependent(plain_kernel, dim3(blocks), dim3(kWarps * kWarp), 0, stream, arguments);
}

}  // namespace nibble::ops::cuda::packed
