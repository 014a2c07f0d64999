#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ops/cuda/dense/dense.h"
#include "ops/cuda/device_code/dependent_launch.cuh"

namespace nibble::ops::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 4;       // of a block
constexpr int kRowsOfWarp = 4;  // outputs that share what a warp reads of x
constexpr int kTokens = 8;

struct Arguments {
  const void* weight;
  const float* x;
  const float* bias;
  float* y;
  int n;
  int k;
  int m;
  int ldy;
  DenseUse use;
};

/// kValues weights at a time: 8 of 16 bits, 4 of 32.
template <typename T>
struct Vector;
template <>
struct Vector<float> {
  static constexpr int kValues = 4;
  float4 bits;
  __device__ float at(int i) const {
    return i == 0 ? bits.x : i == 1 ? bits.y : i == 2 ? bits.z : bits.w;
  }
};
template <typename T>
struct HalfVector {
  static constexpr int kValues = 8;
  uint4 bits;
  __device__ std::uint32_t word(int i) const {
    return i == 0 ? bits.x : i == 1 ? bits.y : i == 2 ? bits.z : bits.w;
  }
};
template <>
struct Vector<__half> : HalfVector<__half> {
  __device__ float at(int i) const {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(word(i / 2) >> (i % 2 * 16))));
  }
};
template <>
struct Vector<__nv_bfloat16> : HalfVector<__nv_bfloat16> {
  __device__ float at(int i) const {
    return __uint_as_float(i % 2 == 0 ? word(i / 2) << 16 : word(i / 2) & 0xffff0000u);
  }
};

template <typename T>
__device__ float single(const T* p);
template <>
__device__ float single(const float* p) {
  return *p;
}
template <>
__device__ float single(const __half* p) {
  return __half2float(*p);
}
template <>
__device__ float single(const __nv_bfloat16* p) {
  return __bfloat162float(*p);
}

/// kAligned: rows of the weight and of x begin at multiples of 16 bytes.
template <typename T, bool kAligned, int kCount>
__global__ void __launch_bounds__(kWarps* kWarp) dense_kernel(Arguments a) {
  launch_dependents();
  wait_for_predecessor();
  const int lane = threadIdx.x % kWarp;
  const int row = (blockIdx.x * kWarps + threadIdx.x / kWarp) * kRowsOfWarp;
  const int token = blockIdx.y * kTokens;
  if (row >= a.n) {
    return;
  }
  const T* weight = static_cast<const T*>(a.weight);
  const float* x = a.x + static_cast<std::size_t>(token) * a.k;
  const int tokens = min(kCount, a.m - token);
  float sums[kRowsOfWarp][kCount] = {};
  constexpr int kValues = kAligned ? Vector<T>::kValues : 1;
  for (int k = lane * kValues; k < a.k; k += kWarp * kValues) {
    float w[kRowsOfWarp][kValues];
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) {
      const T* source = weight + static_cast<std::size_t>(min(row + r, a.n - 1)) * a.k + k;
      if constexpr (kAligned) {
        const auto vector = *reinterpret_cast<const Vector<T>*>(source);
#pragma unroll
        for (int i = 0; i < kValues; ++i) {
          w[r][i] = vector.at(i);
        }
      } else {
        w[r][0] = single(source);
      }
    }
#pragma unroll
    for (int t = 0; t < kCount; ++t) {
      const float* from = x + static_cast<std::size_t>(min(t, tokens - 1)) * a.k + k;
      float values[kValues];
      if constexpr (kAligned) {
#pragma unroll
        for (int i = 0; i < kValues; i += 4) {
          *reinterpret_cast<float4*>(values + i) = *reinterpret_cast<const float4*>(from + i);
        }
      } else {
        values[0] = *from;
      }
#pragma unroll
      for (int r = 0; r < kRowsOfWarp; ++r) {
#pragma unroll
        for (int i = 0; i < kValues; ++i) {
          sums[r][t] = fmaf(w[r][i], values[i], sums[r][t]);
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRowsOfWarp; ++r) {
#pragma unroll
    for (int t = 0; t < kCount; ++t) {
      float sum = sums[r][t];
#pragma unroll
      for (int distance = kWarp / 2; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
      }
      if (lane == 0 && row + r < a.n && t < tokens) {
        float& y = a.y[static_cast<std::size_t>(token + t) * a.ldy + row + r];
        const float before = a.use.add ? y : 0.0f;
        y = fmaf(a.use.factor, sum, before + (a.bias == nullptr ? 0.0f : a.bias[row + r]));
      }
    }
  }
}

template <typename T>
void run(const Arguments& a, bool aligned, cudaStream_t stream) {
  constexpr int kRowsOfBlock = kWarps * kRowsOfWarp;
  const dim3 grid(static_cast<unsigned>((a.n + kRowsOfBlock - 1) / kRowsOfBlock),
                  static_cast<unsigned>((a.m + kTokens - 1) / kTokens));
  const dim3 block(kWarps * kWarp);
  if (!aligned) {
    return launch_dependent(dense_kernel<T, false, kTokens>, grid, block, 0, stream, a);
  }
  a.m == 1 ? launch_dependent(dense_kernel<T, true, 1>, grid, block, 0, stream, a)
           : launch_dependent(dense_kernel<T, true, kTokens>, grid, block, 0, stream, a);
}

}  // namespace

void dense(const DenseView& weight, const float* x, std::int64_t m, float* y, std::int64_t ldy,
           const float* bias, cudaStream_t stream, const DenseUse& use) {
  const Arguments a{weight.data,
                    x,
                    bias,
                    y,
                    static_cast<int>(weight.n),
                    static_cast<int>(weight.k),
                    static_cast<int>(m),
                    static_cast<int>(ldy),
                    use};
  const bool aligned = weight.k % 8 == 0;
  switch (weight.type) {
    case core::DType::kF16:
      return run<__half>(a, aligned, stream);
    case core::DType::kBF16:
      return run<__nv_bfloat16>(a, aligned, stream);
    default:
      return run<float>(a, aligned, stream);
  }
}

}  // namespace nibble::ops::cuda
