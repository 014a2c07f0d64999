#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/elementwise/half_values.cuh"
#include "ops/cuda/elementwise/text_pooling.h"

namespace nibble::ops::cuda {
namespace {

constexpr unsigned kThreads = 64;  // few, so that one text of BERT has several blocks
constexpr int kRowsAhead = 8;      // that are read before they are added

struct Mean {
  double sum = 0.0;
  __device__ void add(float value) { sum += static_cast<double>(value); }
  __device__ float result(std::int32_t rows) const {
    return static_cast<float>(sum / static_cast<double>(rows));
  }
};

struct Maximum {
  float most = 0.0f;
  bool any = false;
  __device__ void add(float value) {
    most = !any || most < value ? value : most;
    any = true;
  }
  __device__ float result(std::int32_t /*rows*/) const { return most; }
};

// A block has kThreads columns of a text.
template <typename Pool, typename Values>
__global__ void __launch_bounds__(kThreads)
    pool_kernel(Values x, std::int64_t columns, const std::int32_t* begins,
                const std::int32_t* ends, float* y) {
  launch_dependents();
  wait_for_predecessor();
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (column >= columns) {
    return;
  }
  const std::int32_t begin = begins[blockIdx.x];
  const std::int32_t end = ends[blockIdx.x];
  Pool pool;
  std::int32_t row = begin;
  for (; row + kRowsAhead <= end; row += kRowsAhead) {
    float values[kRowsAhead];
#pragma unroll
    for (int i = 0; i < kRowsAhead; ++i) {
      values[i] = x.read((row + i) * columns + column);
    }
#pragma unroll
    for (int i = 0; i < kRowsAhead; ++i) {
      pool.add(values[i]);
    }
  }
  for (; row < end; ++row) {
    pool.add(x.read(row * columns + column));
  }
  y[blockIdx.x * columns + column] = pool.result(end - begin);
}

}  // namespace

void pool_texts(TextPooling pooling, const MatrixView& x, std::int64_t columns,
                const std::int32_t* begins, const std::int32_t* ends, float* y, std::int64_t texts,
                cudaStream_t stream) {
  if (texts == 0) {
    return;
  }
  const dim3 grid(static_cast<unsigned>(texts),
                  static_cast<unsigned>((columns + kThreads - 1) / kThreads));
  with_values(x, [&]<typename Values>(const Values& values) {
    const auto kernel =
        pooling == TextPooling::kMean ? pool_kernel<Mean, Values> : pool_kernel<Maximum, Values>;
    launch_dependent(kernel, grid, dim3(kThreads), 0, stream, values, columns, begins, ends, y);
  });
}

}  // namespace nibble::ops::cuda
