#include "device/cuda/blocks.h"
#include "device/cuda/check.h"
#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/sparse/widen_codes.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = 8;  // codes that lie side by side in both orders

/// Two bytes of a word as float16, times their scale.
__device__ std::uint32_t wide_pair(std::uint32_t word, int low, int high, float scale) {
  const auto value = [&](int byte) {
    return static_cast<float>(static_cast<std::int8_t>(word >> (8 * byte) & 255u));
  };
  return saturated_half2(__fmul_rn(value(low), scale), __fmul_rn(value(high), scale));
}

__global__ void __launch_bounds__(kThreads)
    widen_codes_kernel(const std::int8_t* codes, const float* scales, int padded, int step,
                       std::int64_t count, core::Fp16* values) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) {
    return;
  }
  const int each = padded / kEach;  // of a token
  const std::int64_t token = i / each;
  const int at = static_cast<int>(i - token * each) * kEach;  // 32 t + 8 h in a block of 128
  const int column = at / 128 * 128 + at % 32 / 8 * 32 + at % 128 / 32 * 8;
  const uint2 words = *reinterpret_cast<const uint2*>(codes + token * padded + at);
  const float scale = step == 0 ? scales[token] : scales[token * (padded / step) + column / step];
  *reinterpret_cast<uint4*>(values + token * padded + column) =
      make_uint4(wide_pair(words.x, 0, 2, scale), wide_pair(words.x, 1, 3, scale),
                 wide_pair(words.y, 0, 2, scale), wide_pair(words.y, 1, 3, scale));
}

}  // namespace

void widen_codes(const InputTarget& x, std::int64_t first, std::int64_t m, std::int64_t k,
                 core::Fp16* values, cudaStream_t stream) {
  const std::int64_t padded = padded_columns(k);
  const std::int64_t scales = x.group == 0 ? 1 : padded / x.group;
  const std::int64_t count = m * padded / kEach;
  widen_codes_kernel<<<device::cuda::blocks_for(count, kThreads), kThreads, 0, stream>>>(
      x.codes + first * padded, x.scales + first * scales, static_cast<int>(padded),
      static_cast<int>(x.group), count, values);
  device::cuda::check(cudaGetLastError(), "widen_codes");
}

}  // namespace nibble::ops::cuda
