#pragma once

#include <algorithm>
#include <cstdint>

#include <cuda_runtime.h>

#include "device/cuda_devices.h"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/per_device.h"
#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/elementwise/coder.cuh"
#include "ops/cuda/elementwise/row_codes.h"
#include "ops/cuda/elementwise/row_sinks.cuh"

/// What kernels do alike in which each warp takes one short row after the other: 256 columns at a
/// time, eight in each lane. They serve many rows of float16 whose codes have one scale for each
/// row, or for all; the bits are those of the kernel of all rows (row_kernel.cuh).
namespace nibble::ops::cuda {

inline constexpr int kWarpColumns = 256;
inline constexpr int kWarpRowThreads = 128;   // of a block
inline constexpr int kFewestWarpRows = 1024;  // fewer rows have more threads each

/// Where codes go: what a target holds that takes_row_codes().
struct RowCodes {
  std::int8_t* codes = nullptr;
  float* scales = nullptr;
  int bits = 8;
  float scale = 0.0f;  // of all rows, or 0
};

inline RowCodes row_codes(const InputTarget& target) {
  return {target.codes, target.scales, target.bits, target.scale};
}

inline bool is_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

/// Launches `kernel` for m rows, each warp of which takes every so many-th.
template <typename Arguments>
void launch_warp_rows(void (*kernel)(Arguments), const Arguments& arguments, std::int64_t m,
                      cudaStream_t stream) {
  constexpr int kBlocksEach = 4;  // of a multiprocessor
  const int multiprocessors =
      of_current_device([] { return device::current_cuda_device().multiprocessors; });
  const std::int64_t blocks =
      std::min<std::int64_t>((m * kWarp + kWarpRowThreads - 1) / kWarpRowThreads,
                             kBlocksEach * std::int64_t{multiprocessors});
  launch_dependent(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kWarpRowThreads), 0, stream,
                   arguments);
}

/// Calls `body(row)` for each row of this warp.
template <typename Body>
__device__ __forceinline__ void each_warp_row(int rows, const Body& body) {
  const int step = static_cast<int>(gridDim.x) * kWarpRowThreads / kWarp;
  const int first = static_cast<int>(blockIdx.x * kWarpRowThreads + threadIdx.x) / kWarp;
  for (int row = first; row < rows; row += step) {
    body(row);
  }
}

/// A lane's columns.
struct Eight {
  float4 first;
  float4 second;
};

__device__ __forceinline__ Eight floats_of(uint4 halves) {
  return {held_values(uint2{halves.x, halves.y}), held_values(uint2{halves.z, halves.w})};
}

/// Writes the codes of a row of V times 256 columns and its scale: `values(v)` are the lane's eight
/// columns of the 256 number v. `spread` is that of the whole row.
template <int V, typename Values>
__device__ __forceinline__ void put_codes(const RowCodes& to, std::int64_t row,
                                          const Spread& spread, const Values& values) {
  const bool given = to.scale != 0.0f;
  const Coder coder =
      given ? given_coder(to.bits, to.scale, spread) : coder_of(to.bits, true, 1.0f, spread);
  const auto word = [&](float4 x) -> std::uint32_t {
    if (coder.inverse == 0.0f) {
      return 0;
    }
    if (given) {
      return IntegerSink::word_of({cut_code_of(coder, x.x), cut_code_of(coder, x.z),
                                   cut_code_of(coder, x.y), cut_code_of(coder, x.w)});
    }
    const auto shifted = [&](float value) { return shifted_product(value, coder.inverse); };
    return lowest_bytes(shifted(x.x), shifted(x.y), shifted(x.z), shifted(x.w));
  };
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const bool odd = lane % 2 == 1;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    // In tile order the first words of two lanes lie side by side, and so do the second ones.
    const Eight eight = values(v);
    const std::uint32_t first = word(eight.first);
    const std::uint32_t second = word(eight.second);
    const std::uint32_t other = __shfl_xor_sync(kAllLanes, odd ? first : second, 1);
    const int at = kWarpColumns * v + lane / 4 * 32 + (odd ? 16 : 0) + lane % 4 / 2 * 8;
    *reinterpret_cast<uint2*>(to.codes + row * (V * kWarpColumns) + at) =
        odd ? uint2{other, second} : uint2{first, other};
  }
  if (lane == 0) {
    to.scales[row] = coder.scale;
  }
}

}  // namespace nibble::ops::cuda
