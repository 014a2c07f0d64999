#include "ops/cuda/activation_codes/activation_codes.h"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/outliers/outliers.h"
#include "ops/cuda/packed/unit_reader.cuh"

namespace nibble::ops::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kRows = 64;  // of a block of threads, one each
constexpr int kAbsBits = 0x7fffffff;
constexpr int kInfinity = 0x7f800000;

/// A block of threads has a token.
__global__ void __launch_bounds__(kThreads)
    find_kernel(const float* x, int k, const OutlierLists lists) {
  launch_dependents();
  wait_for_predecessor();
  __shared__ int counts[kWarps];
  const std::size_t row = static_cast<std::size_t>(blockIdx.x) * k;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  int found = 0;  // in the columns before these, the same on every thread
  for (int first = 0; first < k; first += kThreads) {
    const int column = first + static_cast<int>(threadIdx.x);
    const float value = column < k ? x[row + column] : 0.0f;
    const bool finite = (__float_as_int(value) & kAbsBits) < kInfinity;
    const bool outlying = finite && fabsf(value) >= kOutlierThreshold;
    const unsigned votes = __ballot_sync(kAllLanes, outlying);
    if (lane == 0) {
      counts[warp] = __popc(votes);
    }
    __syncthreads();
    int before = found;
    for (int i = 0; i < kWarps; ++i) {
      before += i < warp ? counts[i] : 0;
      found += counts[i];
    }
    if (outlying) {
      const std::size_t at = row + before + __popc(votes & ((1u << lane) - 1));
      lists.columns[at] = column;
      lists.values[at] = value;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    lists.counts[blockIdx.x] = found;
  }
}

__global__ void __launch_bounds__(kRows)
    add_kernel(const UnitReader weight, const OutlierLists lists, int n, int k, float* y,
               std::int64_t ldy) {
  launch_dependents();
  wait_for_predecessor();
  const int row = static_cast<int>(blockIdx.x * kRows + threadIdx.x);
  const std::int64_t token = blockIdx.y;
  const int count = lists.counts[token];
  if (count == 0 || row >= n) {
    return;
  }
  float sum = y[token * ldy + row];
  for (int i = 0; i < count; ++i) {
    sum = fmaf(weight.weight(row, lists.columns[token * k + i]), lists.values[token * k + i], sum);
  }
  y[token * ldy + row] = sum;
}

}  // namespace

void find_outliers(const float* x, std::int64_t m, std::int64_t k, const OutlierLists& lists,
                   cudaStream_t stream) {
  if (m > 0) {
    launch_dependent(find_kernel, dim3(static_cast<unsigned>(m)), dim3(kThreads), 0, stream, x,
                     static_cast<int>(k), lists);
  }
}

void add_outliers(const UnitsView& weight, const OutlierLists& lists, std::int64_t m, float* y,
                  std::int64_t ldy, cudaStream_t stream) {
  if (m > 0) {
    launch_dependent(
        add_kernel,
        dim3(static_cast<unsigned>((weight.n + kRows - 1) / kRows), static_cast<unsigned>(m)),
        dim3(kRows), 0, stream, UnitReader(weight), lists, static_cast<int>(weight.n),
        static_cast<int>(weight.k), y, ldy);
  }
}

}  // namespace nibble::ops::cuda
