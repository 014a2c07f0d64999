#include "device/cuda/check.h"
#include "ops/cuda/activation_codes/activation_codes.h"
#include "ops/cuda/elementwise/spread.cuh"
#include "ops/gradient/cuda/input_kernels.h"

namespace nibble::ops::gradient::cuda {
namespace {

using ops::cuda::Coder;
using ops::cuda::kWarp;
using ops::cuda::Spread;

constexpr int kMostThreads = 256;
constexpr int kFewColumns = 256;  // of a group that one warp takes

// Of rows with so many columns, in groups.
struct Rounding : IntegerRounding {
  Rounding(const IntegerRounding& rounding, std::int64_t of_row)
      : IntegerRounding(rounding), columns(of_row) {
    if (group == 0 || group > columns) {
      group = columns;
    }
  }

  std::int64_t columns;
};

// The inputs of a row that share a scale.
struct Group {
  const float* x;
  std::int64_t at;  // of the first, among all
  std::int64_t count;
};

__device__ Group own_group(const Rounding& rounding, const float* x) {
  const std::int64_t first = blockIdx.y * rounding.group;
  const std::int64_t at = blockIdx.x * rounding.columns + first;
  return {x + at, at, min(rounding.group, rounding.columns - first)};
}

__device__ bool stays_float(const Rounding& rounding, float value) {
  const bool finite = (__float_as_int(value) & ops::cuda::kAbsMask) < ops::cuda::kInfinityBits;
  return rounding.keeps_outliers && finite && fabsf(value) >= ops::cuda::kOutlierThreshold;
}

// One block for each group of a row.
__global__ void __launch_bounds__(kMostThreads)
    round_input_kernel(Rounding rounding, const float* x, float* y) {
  const Group group = own_group(rounding, x);
  Spread spread;
  for (std::int64_t i = threadIdx.x; i < group.count; i += blockDim.x) {
    const float value = group.x[i];
    ops::cuda::widen(spread, stays_float(rounding, value) ? 0.0f : value, rounding.symmetric);
  }
  const Spread all = ops::cuda::spread_of_block<kMostThreads>(spread);
  const bool given = rounding.scale != 0.0f;
  const Coder coder =
      given ? ops::cuda::given_coder(rounding.bits, rounding.scale, all)
            : ops::cuda::coder_of(rounding.bits, rounding.symmetric, rounding.clip, all);
  for (std::int64_t i = threadIdx.x; i < group.count; i += blockDim.x) {
    const float value = group.x[i];
    if (stays_float(rounding, value)) {
      y[group.at + i] = value;
      continue;
    }
    const std::int32_t code =
        given ? ops::cuda::cut_code_of(coder, value) : ops::cuda::code_of(coder, value);
    y[group.at + i] = __fmul_rn(coder.scale, static_cast<float>(code - coder.zero));
  }
}

__global__ void __launch_bounds__(kMostThreads)
    cut_gradient_kernel(Rounding rounding, const float* x, float* gradient) {
  const Group group = own_group(rounding, x);
  Spread spread;
  for (std::int64_t i = threadIdx.x; i < group.count; i += blockDim.x) {
    ops::cuda::widen(spread, group.x[i], rounding.symmetric);
  }
  const Spread all = ops::cuda::spread_of_block<kMostThreads>(spread);
  float low;
  float high;
  if (rounding.symmetric) {
    const auto top = static_cast<float>((1 << (rounding.bits - 1)) - 1);
    const float step =
        rounding.scale != 0.0f
            ? rounding.scale
            : __fdiv_rn(__fmul_rn(rounding.clip, __int_as_float(all.magnitude)), top);
    low = __fmul_rn(step, rounding.bits == 8 ? -top : -top - 1.0f);
    high = __fmul_rn(step, top);
  } else {
    const float smallest = all.low < 0 ? __int_as_float(ops::cuda::place_of(all.low)) : 0.0f;
    low = __fmul_rn(rounding.clip, smallest);
    high = __fmul_rn(rounding.clip, __int_as_float(ops::cuda::place_of(all.high)));
  }
  for (std::int64_t i = threadIdx.x; i < group.count; i += blockDim.x) {
    if (group.x[i] < low || group.x[i] > high) {
      gradient[group.at + i] = 0.0f;
    }
  }
}

dim3 grid_of(const Rounding& rounding, std::int64_t m) {
  return {static_cast<unsigned>(m),
          static_cast<unsigned>((rounding.columns + rounding.group - 1) / rounding.group)};
}

unsigned threads_of(const Rounding& rounding) {
  return rounding.group <= kFewColumns ? kWarp : kMostThreads;
}

}  // namespace

void round_input(const IntegerRounding& rounding, const float* x, std::int64_t m,
                 std::int64_t columns, float* y, cudaStream_t stream) {
  const Rounding own(rounding, columns);
  round_input_kernel<<<grid_of(own, m), threads_of(own), 0, stream>>>(own, x, y);
  device::cuda::check_launch("round_input_kernel");
}

void cut_gradient(const IntegerRounding& rounding, const float* x, std::int64_t m,
                  std::int64_t columns, float* gradient, cudaStream_t stream) {
  const Rounding own(rounding, columns);
  cut_gradient_kernel<<<grid_of(own, m), threads_of(own), 0, stream>>>(own, x, gradient);
  device::cuda::check_launch("cut_gradient_kernel");
}

}  // namespace nibble::ops::gradient::cuda
