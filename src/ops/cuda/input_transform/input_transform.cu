#include <algorithm>

#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/input_transform/input_transform.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kMostThreads = 1024;

__device__ int thread() {
  return static_cast<int>(threadIdx.x);
}
__device__ int threads() {
  return static_cast<int>(blockDim.x);
}

/// values <- values S in each of `base` runs: rounds of butterflies among values 1, 2, 4, ...
/// apart.
__device__ void turn_by_butterflies(float* values, const HadamardBlock& block) {
  for (int half = 1; half < block.size / block.base; half *= 2) {
    __syncthreads();
    for (int pair = thread(); pair < block.size / 2; pair += threads()) {
      const int low = (pair & ~(half - 1)) * 2 + (pair & (half - 1));
      const float a = values[low];
      const float b = values[low + half];
      values[low] = a + b;
      values[low + half] = a - b;
    }
  }
  __syncthreads();
}

/// y = B^T values, scaled; values [base, width].
__device__ void mix(const float* values, const HadamardBlock& block, float* y) {
  const int width = block.size / block.base;
  for (int i = thread(); i < block.size; i += threads()) {
    const int to = i / width;
    float sum = 0.0f;
    for (int from = 0; from < block.base; ++from) {
      sum = __fadd_rn(
          sum, __fmul_rn(block.signs[from * block.base + to], values[from * width + i % width]));
    }
    y[i] = sum * block.scale;
  }
}

/// A block of threads has a row's Hadamard block, or all that is not turned.
__global__ void __launch_bounds__(kMostThreads)
    transform_kernel(InputTransformView t, const float* x, float* y) {
  extern __shared__ float values[];
  launch_dependents();
  wait_for_predecessor();
  const std::size_t row = static_cast<std::size_t>(blockIdx.x) * t.columns;
  const auto input = [&](int i) { return x[row + (t.order == nullptr ? i : t.order[i])]; };
  const int part = static_cast<int>(blockIdx.y);
  const int blocks = t.block.size == 0 ? 0 : (t.head - t.last.size) / t.block.size;
  if (part > blocks || (part == blocks && t.last.size == 0)) {
    for (int i = (t.block.size == 0 ? 0 : t.head) + thread(); i < t.columns; i += threads()) {
      y[row + i] = input(i);
    }
    return;
  }
  const HadamardBlock& block = part < blocks ? t.block : t.last;
  const int first = part * t.block.size;
  for (int i = thread(); i < block.size; i += threads()) {
    values[i] = input(first + i);
  }
  turn_by_butterflies(values, block);
  if (block.base > 1) {
    return mix(values, block, y + row + first);
  }
  for (int i = thread(); i < block.size; i += threads()) {
    y[row + first + i] = values[i] * block.scale;
  }
}

}  // namespace

void transform_inputs(const InputTransformView& t, const float* x, float* y, std::int64_t m,
                      cudaStream_t stream) {
  if (m == 0) {
    return;
  }
  const bool turns = t.block.size > 0;
  const int rest = turns ? t.columns - t.head : t.columns;
  const int blocks = turns ? (t.head - t.last.size) / t.block.size : 0;
  const int parts = blocks + (t.last.size > 0 ? 1 : 0) + (rest > 0 ? 1 : 0);
  const int most = std::max({t.block.size, t.last.size, rest});
  const int threads = std::clamp((most / 4 + 31) / 32 * 32, 32, kMostThreads);
  const int bytes = std::max(t.block.size, t.last.size) * static_cast<int>(sizeof(float));
  allow_shared_bytes(transform_kernel, bytes);
  launch_dependent(transform_kernel, dim3(static_cast<unsigned>(m), static_cast<unsigned>(parts)),
                   dim3(static_cast<unsigned>(threads)), static_cast<std::size_t>(bytes), stream, t,
                   x, y);
}

}  // namespace nibble::ops::cuda
