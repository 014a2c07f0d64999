#include "ops/cuda/elementwise/gated_bfloat16.h"
#include "ops/cuda/elementwise/row_kernel.cuh"

namespace nibble::ops::cuda {
namespace {

/// Four bfloat16 as float32, which begins with the same bits.
__device__ __forceinline__ float4 widened(uint2 pairs) {
  return {__uint_as_float(pairs.x << 16), __uint_as_float(pairs.x & 0xffff0000u),
          __uint_as_float(pairs.y << 16), __uint_as_float(pairs.y & 0xffff0000u)};
}

struct GatedBfloat16Source {
  const std::uint16_t* data;
  int columns;
  MlpActivation activation;
  __device__ float4 load(std::int64_t row, int column) const {
    if (column >= columns) {
      return {};
    }
    const std::uint16_t* gate = data + 2 * row * columns + column;
    const float4 a = activated(activation, widened(*reinterpret_cast<const uint2*>(gate)));
    const float4 b = widened(*reinterpret_cast<const uint2*>(gate + columns));
    return {a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w};
  }
};

}  // namespace

void gated_bfloat16(const std::uint16_t* gate_up, MlpActivation activation,
                    const InputTarget& target, std::int64_t m, std::int64_t columns,
                    cudaStream_t stream) {
  const auto width = static_cast<int>(columns);
  run_rows(GatedBfloat16Source{gate_up, width, activation}, NoNorm{}, HalfSink::of(target, width),
           m, width, false, stream);
}

void gated_bfloat16_matrix(const std::uint16_t* gate_up, MlpActivation activation, float* y,
                           std::int64_t m, std::int64_t columns, cudaStream_t stream) {
  run_rows(GatedBfloat16Source{gate_up, static_cast<int>(columns), activation}, NoNorm{},
           matrix_sink(y, columns), m, static_cast<int>(columns), false, stream);
}

}  // namespace nibble::ops::cuda
