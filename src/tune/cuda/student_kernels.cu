#include "compress/coding/cuda/coder.cuh"
#include "device/cuda/blocks.h"
#include "device/cuda/check.h"
#include "ops/cuda/device_code/float_types.cuh"
#include "ops/cuda/device_code/grid.cuh"
#include "tune/cuda/student_kernels.h"

namespace nibble::tune::cuda {
namespace {

using compress::cuda::Coder;
using compress::cuda::CoderView;
using compress::cuda::GroupValues;
using device::cuda::blocks_for;
using ops::cuda::as_float;
using ops::cuda::kWarp;
using ops::cuda::over_grid;
using ops::cuda::store;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

// A warp for each group.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    round_to_nearest_kernel(CoderView view, const float* weights, std::int64_t n, std::int64_t k,
                            std::int64_t group, T* values) {
  const std::int64_t groups = (k + group - 1) / group;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (at >= n * groups) {
    return;
  }
  const std::int64_t row = at / groups;
  const std::int64_t first = row * k + at % groups * group;
  const auto width = static_cast<int>(min(group, k - at % groups * group));
  const Coder coder(view, row);
  const float* const own = weights + first;
  const GroupValues parameters = coder.fit(width, [&](int i) { return own[i]; });
  for (int i = static_cast<int>(threadIdx.x) % kWarp; i < width; i += kWarp) {
    store(values + first + i, coder.rounded(own[i], parameters));
  }
}

template <typename Stored, typename T>
__global__ void round_floats_kernel(const float* weights, std::int64_t count, T* values) {
  over_grid(count, [&](std::int64_t i) {
    Stored stored;
    store(&stored, weights[i]);
    store(values + i, as_float(stored));
  });
}

template <typename Stored>
void round_to(const float* weights, std::int64_t count, void* values, core::DType type,
              cudaStream_t stream) {
  constexpr std::int64_t kMostBlocks = std::int64_t{1} << 16;
  const unsigned blocks = blocks_for(count, kThreads, kMostBlocks);
  if (type == core::DType::kBF16) {
    round_floats_kernel<Stored>
        <<<blocks, kThreads, 0, stream>>>(weights, count, static_cast<__nv_bfloat16*>(values));
  } else {
    round_floats_kernel<Stored>
        <<<blocks, kThreads, 0, stream>>>(weights, count, static_cast<float*>(values));
  }
}

}  // namespace

void round_to_nearest(const CoderView& coder, const float* weights, std::int64_t n, std::int64_t k,
                      std::int64_t group, void* values, core::DType type, cudaStream_t stream) {
  const std::int64_t groups = n * ((k + group - 1) / group);
  const unsigned blocks = blocks_for(groups, kWarps);
  if (type == core::DType::kBF16) {
    round_to_nearest_kernel<<<blocks, kThreads, 0, stream>>>(coder, weights, n, k, group,
                                                             static_cast<__nv_bfloat16*>(values));
  } else {
    round_to_nearest_kernel<<<blocks, kThreads, 0, stream>>>(coder, weights, n, k, group,
                                                             static_cast<float*>(values));
  }
  device::cuda::check_launch("round_to_nearest_kernel");
}

void round_floats(core::DType stored, const float* weights, std::int64_t count, void* values,
                  core::DType type, cudaStream_t stream) {
  switch (stored) {
    case core::DType::kF16:
      round_to<__half>(weights, count, values, type, stream);
      break;
    case core::DType::kBF16:
      round_to<__nv_bfloat16>(weights, count, values, type, stream);
      break;
    default:
      round_to<float>(weights, count, values, type, stream);
      break;
  }
  device::cuda::check_launch("round_floats_kernel");
}

}  // namespace nibble::tune::cuda
