#include <algorithm>

#include "formats/fp4/e2m1_doubles.h"
#include "formats/fp4/e2m1_numbers.h"
#include "ops/cuda/activation_codes/activation_codes.h"
#include "ops/cuda/activation_codes/e2m1_coder.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/elementwise/checks.h"
#include "ops/cuda/elementwise/int4_tiles.h"
#include "ops/cuda/elementwise/spread.cuh"

namespace nibble::ops::cuda {
namespace {

constexpr int kMostThreads = 256;
constexpr int kFewColumns = 256;  // of a group that one warp takes

struct Arguments {
  const float* x;
  std::int64_t ldx;
  int columns;
  int padded;
  int group;  // columns of one: all where they share a scale
  int step;   // columns of a stored scale
  bool e2m1;  // doubles of E2M1 numbers
  ActivationCodes to;
};

__device__ int place_of_column(InputForm form, int column) {
  const int t = column % 32 / 8;
  const int e = column % 8 / 4;
  const int i = column % 4;
  const int n = i == 1 ? 2 : i == 2 ? 1 : i;
  return form == InputForm::kInt8Lanes
             ? column / 128 * 128 + 32 * t + 8 * (column % 128 / 32) + 4 * e + n
             : column / 32 * 32 + 16 * e + 4 * t + n;
}

/// A block of threads has a group of a row; the last one also the padding.
__global__ void __launch_bounds__(kMostThreads) activation_codes_kernel(Arguments a) {
  launch_dependents();
  wait_for_predecessor();
  const std::int64_t row = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int begin = static_cast<int>(blockIdx.y) * a.group;
  const int end = min(begin + a.group, a.columns);
  const int padded_end = end == a.columns ? a.padded : end;
  const float* x = a.x + row * a.ldx;
  const ActivationCodes& to = a.to;
  const auto value = [&](int column) {
    const float v = x[column];
    const bool finite = (__float_as_int(v) & kAbsMask) < kInfinityBits;
    return to.keeps_outliers && finite && fabsf(v) >= kOutlierThreshold ? 0.0f : v;
  };
  Spread spread;
  for (int column = begin + thread; column < end; column += threads) {
    widen(spread, value(column), to.symmetric);
  }
  const Spread all = spread_of_block<kMostThreads>(spread);
  const Coder coder = a.e2m1             ? e2m1_coder(to.clip, all)
                      : to.scale != 0.0f ? given_coder(to.bits, to.scale, all)
                                         : coder_of(to.bits, to.symmetric, to.clip, all);
  std::int8_t* codes = to.codes + row * to.row_bytes;
  const auto code = [&](int column) {
    if (column >= end) {
      return 0;
    }
    return a.e2m1             ? e2m1_code_of(coder, value(column))
           : to.scale != 0.0f ? cut_code_of(coder, value(column))
                              : code_of(coder, value(column));
  };
  const std::int32_t shift = int4_shift(coder, to.symmetric);
  if (to.form == InputForm::kInt4Tiles) {
    for (int byte = begin / 2 + thread; byte < padded_end / 2; byte += threads) {
      const int column = int4_column(byte);
      codes[byte] = static_cast<std::int8_t>(((code(column) + shift) & 15) |
                                             (code(column + kInt4Apart) + shift) << 4);
    }
  } else {
    for (int column = begin + thread; column < padded_end; column += threads) {
      codes[place_of_column(to.form, column)] = static_cast<std::int8_t>(code(column));
    }
  }
  const int steps = (a.columns + a.step - 1) / a.step;
  for (int i = begin / a.step + thread; i * a.step < padded_end; i += threads) {
    to.scales[row * to.scale_stride + i] = i < steps ? coder.scale : 0.0f;
    if (to.zeros != nullptr) {
      to.zeros[row * to.scale_stride + i] = i < steps ? shift : 0;
    }
    if (to.shifts != nullptr && i < steps) {
      to.shifts[row * steps + i] = __fmul_rn(coder.scale, static_cast<float>(coder.zero));
    }
  }
}

}  // namespace

void activation_codes(const float* x, std::int64_t ldx, std::int64_t m, std::int64_t columns,
                      const ActivationCodes& target, cudaStream_t stream) {
  if (m == 0) {
    return;
  }
  const auto all = static_cast<int>(columns);
  const auto padded = static_cast<int>(padded_columns(columns));
  const auto group =
      static_cast<int>(target.group == 0 || target.group >= columns ? columns : target.group);
  const bool e2m1 = target.type == &formats::kE2m1Numbers;
  if (target.form == InputForm::kInt4Tiles) {
    check_int4(e2m1 ? formats::kE2m1Bits : target.bits, group == all ? 0 : group);
  }
  const int step = target.scale_step == 0 ? padded : static_cast<int>(target.scale_step);
  const Arguments a{x, ldx, all, padded, group, step, e2m1, target};
  const dim3 grid(static_cast<unsigned>(m), static_cast<unsigned>((all + group - 1) / group));
  launch_dependent(activation_codes_kernel, grid, dim3(group <= kFewColumns ? kWarp : kMostThreads),
                   0, stream, a);
}

}  // namespace nibble::ops::cuda
