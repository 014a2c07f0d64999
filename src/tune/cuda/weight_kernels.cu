#include "compress/coding/cuda/coder.cuh"
#include "device/cuda/blocks.h"
#include "device/cuda/check.h"
#include "ops/cuda/device_code/float_types.cuh"
#include "ops/cuda/device_code/grid.cuh"
#include "ops/cuda/device_code/reduce.cuh"
#include "tune/cuda/weight_kernels.h"

namespace nibble::tune::cuda {
namespace {

using compress::cuda::Coder;
using compress::cuda::GroupValues;
using device::cuda::blocks_for;
using ops::cuda::kWarp;
using ops::cuda::over_grid;
using ops::cuda::store;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

// Small groups have a few lanes each, so that none is idle.
constexpr int kFewLanes = 4;
constexpr std::int64_t kSmallGroup = 32;

// A group of a layer, and the lane of those that share it.
struct Group {
  std::int64_t at;     // among all [n, groups]
  std::int64_t begin;  // of its weights
  std::int64_t width;
  int lane;
};

template <int kLanes>
__device__ Group own_group(const DeviceWeight& w) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t at = thread / kLanes;
  const std::int64_t first = at % w.groups * w.group;
  return {at, at / w.groups * w.k + first, min(w.group, w.k - first),
          static_cast<int>(thread % kLanes)};
}

// The last code of the scheme.
__device__ float last_code(const DeviceWeight& w) {
  return static_cast<float>((1 << w.coder.bits) - 1);
}

// GroupScales::stored(). exp() of the GPU may differ from the host's in the last of 53 bits, of
// which the fp16 scale keeps 11.
__device__ GroupValues stored(const DeviceWeight& w, std::int64_t at) {
  GroupValues group;
  group.scale = compress::cuda::round_scale(static_cast<double>(w.signs[at]) *
                                            exp(static_cast<double>(w.logarithms[at])));
  group.zero = w.start_zeros[at];
  if (w.zeros != nullptr) {
    group.zero = static_cast<std::int32_t>(fminf(fmaxf(rintf(w.zeros[at]), 0.0f), last_code(w)));
  }
  return group;
}

__device__ float decoded(std::uint8_t code, const GroupValues& group) {
  return __fmul_rn(group.scale, static_cast<float>(static_cast<int>(code) - group.zero));
}

__device__ std::uint8_t code_at(const DeviceWeight& w, std::int64_t at) {
  return w.places == nullptr
             ? w.codes[at]
             : static_cast<std::uint8_t>(fminf(fmaxf(rintf(w.places[at]), 0.0f), last_code(w)));
}

template <int kLanes, typename T>
__global__ void __launch_bounds__(kThreads) fake_quantize_kernel(DeviceWeight w, T* values) {
  const Group group = own_group<kLanes>(w);
  if (group.at >= w.n * w.groups) {
    return;
  }
  if (w.signs[group.at] == 0) {
    for (std::int64_t i = group.lane; i < group.width; i += kLanes) {
      store(values + group.begin + i, 0.0f);
    }
    return;
  }
  if (w.floats) {
    for (std::int64_t i = group.lane; i < group.width; i += kLanes) {
      store(values + group.begin + i, __half2float(__float2half_rn(w.weights[group.begin + i])));
    }
    return;
  }
  const GroupValues parameters = stored(w, group.at);
  const Coder coder(w.coder, group.at / w.groups);
  for (std::int64_t i = group.lane; i < group.width; i += kLanes) {
    const std::int64_t at = group.begin + i;
    store(values + at, w.weights == nullptr ? decoded(code_at(w, at), parameters)
                                            : coder.rounded(w.weights[at], parameters));
  }
}

// Over runs of lanes. All lanes of a warp take part.
template <int kLanes>
__device__ double sum_over_lanes(double value) {
  return ops::cuda::over_lanes(value, kLanes, [](double a, double b) { return a + b; });
}

// What the gradient of one group does to its scale and zero.
struct GroupSums {
  double scale = 0;
  double zero = 0;
};

// The share of one lane; the group's gradients at the rounded weights become those at the weights.
template <int kLanes>
__device__ GroupSums pass_back(const DeviceWeight& w, const Group& group,
                               const GroupValues& parameters, float* gradient) {
  const Coder coder(w.coder, group.at / w.groups);
  GroupSums sums;
  for (std::int64_t i = group.lane; i < group.width; i += kLanes) {
    const float weight = w.weights[group.begin + i];
    const float v = __fdiv_rn(weight, parameters.scale);
    const auto q =
        static_cast<float>(static_cast<int>(coder.encode(weight, parameters)) - parameters.zero);
    const float g = gradient[group.begin + i];
    if (rintf(v) == q) {
      sums.scale += static_cast<double>(g * (q - v));
    } else {
      sums.scale += static_cast<double>(g * q);
      sums.zero -= static_cast<double>(g * parameters.scale);
      gradient[group.begin + i] = 0.0f;
    }
  }
  return sums;
}

template <int kLanes>
__global__ void __launch_bounds__(kThreads)
    fake_quantize_back_kernel(DeviceWeight w, DeviceSlope slope) {
  const Group group = own_group<kLanes>(w);
  const bool is_there = group.at < w.n * w.groups;
  const bool is_kept = is_there && w.signs[group.at] != 0;
  GroupValues parameters;
  GroupSums own;
  if (is_kept && !w.floats) {
    parameters = stored(w, group.at);
    own = pass_back<kLanes>(w, group, parameters, slope.weights);
  } else if (is_there && !is_kept) {
    for (std::int64_t i = group.lane; i < group.width; i += kLanes) {
      slope.weights[group.begin + i] = 0.0f;
    }
  }
  const double scale = sum_over_lanes<kLanes>(own.scale);
  const double zero = sum_over_lanes<kLanes>(own.zero);
  if (!is_kept || w.floats || group.lane != 0) {
    return;
  }
  // ds / d log|s| = s, before it is rounded.
  const double magnitude = exp(static_cast<double>(w.logarithms[group.at]));
  slope.logarithms[group.at] +=
      static_cast<float>(scale * copysign(magnitude, static_cast<double>(parameters.scale)));
  if (slope.zeros != nullptr) {
    slope.zeros[group.at] += static_cast<float>(zero);
  }
}

// With the gradient P at the weights s q, that at log s is s q P and that at a zero -s P, each
// summed over its group.
template <int kLanes>
__global__ void __launch_bounds__(kThreads)
    add_scale_gradients_kernel(DeviceWeight w, const float* gradient, DeviceSlope slope) {
  const Group group = own_group<kLanes>(w);
  const bool is_kept = group.at < w.n * w.groups && w.signs[group.at] != 0;
  GroupValues parameters;
  double products = 0;
  double sum = 0;
  if (is_kept) {
    parameters = stored(w, group.at);
    for (std::int64_t i = group.lane; i < group.width; i += kLanes) {
      const std::int64_t at = group.begin + i;
      const auto g = static_cast<double>(gradient[at]);
      const std::uint8_t code = code_at(w, at);
      products += g * static_cast<double>(decoded(code, parameters));
      sum += g;
      if (w.places != nullptr && rintf(w.places[at]) == static_cast<float>(code)) {
        slope.places[at] += gradient[at] * parameters.scale;
      }
    }
  }
  products = sum_over_lanes<kLanes>(products);
  sum = sum_over_lanes<kLanes>(sum);
  if (!is_kept || group.lane != 0) {
    return;
  }
  const double magnitude = exp(static_cast<double>(w.logarithms[group.at]));
  slope.logarithms[group.at] +=
      static_cast<float>(magnitude / fabs(static_cast<double>(parameters.scale)) * products);
  if (slope.zeros != nullptr) {
    slope.zeros[group.at] -= parameters.scale * static_cast<float>(sum);
  }
}

// Sums of the block; the first thread writes it.
__device__ void write_block_sum(double value, double* sums) {
  __shared__ double parts[kWarps];
  const double own = sum_over_lanes<kWarp>(value);
  if (threadIdx.x % kWarp == 0) {
    parts[threadIdx.x / kWarp] = own;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    double sum = 0;
    for (const double part : parts) {
      sum += part;
    }
    sums[blockIdx.x] = sum;
  }
}

__global__ void __launch_bounds__(kThreads)
    squares_kernel(const float* x, std::int64_t count, double* sums) {
  double sum = 0;
  over_grid(count, [&](std::int64_t i) {
    const auto value = static_cast<double>(x[i]);
    sum += value * value;
  });
  write_block_sum(sum, sums);
}

__global__ void __launch_bounds__(kThreads)
    square_loss_kernel(float* y, const float* target, std::int64_t count, float factor,
                       double* sums) {
  double sum = 0;
  over_grid(count, [&](std::int64_t i) {
    const float difference = y[i] - target[i];
    sum += static_cast<double>(difference) * static_cast<double>(difference);
    y[i] = factor * difference;
  });
  write_block_sum(sum, sums);
}

__global__ void __launch_bounds__(kThreads)
    adamw_kernel(AdamWStep step, DeviceMoments numbers, std::int64_t count) {
  over_grid(count, [&](std::int64_t i) {
    move(step, numbers.values[i], numbers.gradient[i], numbers.first[i], numbers.second[i]);
  });
}

// Blocks for so many lanes of each group.
unsigned blocks_of_groups(const DeviceWeight& weight, int lanes) {
  return blocks_for(weight.n * weight.groups * lanes, kThreads);
}

template <typename T>
void run_fake_quantize(const DeviceWeight& weight, T* values, cudaStream_t stream) {
  if (weight.group <= kSmallGroup) {
    fake_quantize_kernel<kFewLanes>
        <<<blocks_of_groups(weight, kFewLanes), kThreads, 0, stream>>>(weight, values);
  } else {
    fake_quantize_kernel<kWarp>
        <<<blocks_of_groups(weight, kWarp), kThreads, 0, stream>>>(weight, values);
  }
}

}  // namespace

void fake_quantize(const DeviceWeight& weight, void* values, core::DType type,
                   cudaStream_t stream) {
  if (type == core::DType::kBF16) {
    run_fake_quantize(weight, static_cast<__nv_bfloat16*>(values), stream);
  } else {
    run_fake_quantize(weight, static_cast<float*>(values), stream);
  }
  device::cuda::check_launch("fake_quantize_kernel");
}

void fake_quantize_back(const DeviceWeight& weight, const DeviceSlope& slope, cudaStream_t stream) {
  if (weight.group <= kSmallGroup) {
    fake_quantize_back_kernel<kFewLanes>
        <<<blocks_of_groups(weight, kFewLanes), kThreads, 0, stream>>>(weight, slope);
  } else {
    fake_quantize_back_kernel<kWarp>
        <<<blocks_of_groups(weight, kWarp), kThreads, 0, stream>>>(weight, slope);
  }
  device::cuda::check_launch("fake_quantize_back_kernel");
}

void add_scale_gradients(const DeviceWeight& weight, const float* gradient,
                         const DeviceSlope& slope, cudaStream_t stream) {
  if (weight.group <= kSmallGroup) {
    add_scale_gradients_kernel<kFewLanes>
        <<<blocks_of_groups(weight, kFewLanes), kThreads, 0, stream>>>(weight, gradient, slope);
  } else {
    add_scale_gradients_kernel<kWarp>
        <<<blocks_of_groups(weight, kWarp), kThreads, 0, stream>>>(weight, gradient, slope);
  }
  device::cuda::check_launch("add_scale_gradients_kernel");
}

void squares(const float* x, std::int64_t count, double* sums, cudaStream_t stream) {
  squares_kernel<<<kPartialSums, kThreads, 0, stream>>>(x, count, sums);
  device::cuda::check_launch("squares_kernel");
}

void square_loss(float* y, const float* target, std::int64_t count, float factor, double* sums,
                 cudaStream_t stream) {
  square_loss_kernel<<<kPartialSums, kThreads, 0, stream>>>(y, target, count, factor, sums);
  device::cuda::check_launch("square_loss_kernel");
}

void adamw_step(const AdamWStep& step, const DeviceMoments& numbers, std::int64_t count,
                cudaStream_t stream) {
  constexpr std::int64_t kMostBlocks = 4096;
  adamw_kernel<<<blocks_for(count, kThreads, kMostBlocks), kThreads, 0, stream>>>(step, numbers,
                                                                                  count);
  device::cuda::check_launch("adamw_kernel");
}

}  // namespace nibble::tune::cuda
