#include <cuda_runtime.h>

#include "device/cuda/blocks.h"
#include "device/cuda/check.h"
#include "ops/cuda/packed/unit_kernels.h"
#include "ops/cuda/packed/unit_parts.h"
#include "ops/cuda/packed/unit_reader.cuh"

namespace nibble::ops::cuda {
namespace {

constexpr unsigned kThreads = 128;

/// A block of threads writes a unit.
template <CodeKind kKind>
__global__ void __launch_bounds__(kThreads)
    pack_kernel(const RawRows raw, const UnitFormat format, std::byte* units) {
  constexpr unsigned kVectors = code_vectors(kKind);
  const std::int64_t row = std::int64_t{blockIdx.y} * kUnitRows;
  const std::int64_t input = std::int64_t{blockIdx.x} * kUnitInputs;
  const std::int64_t number = std::int64_t{blockIdx.y} * gridDim.x + blockIdx.x;
  std::byte* unit = units + number * format.bytes();
  const std::int64_t tile_bytes = format.tile_bytes();
  for (unsigned i = threadIdx.x; i < kTiles * kVectors; i += kThreads) {
    const unsigned tile = i / kVectors;
    const unsigned vector = i % kVectors;
    const CodeVector codes = code_vector<kKind>(raw, row + tile * kTileRows, input, vector);
    reinterpret_cast<uint4*>(unit + tile * tile_bytes)[vector] = {codes.words[0], codes.words[1],
                                                                  codes.words[2], codes.words[3]};
  }
  for (unsigned i = threadIdx.x; i < kUnitRows * format.groups; i += kThreads) {
    const UnitColumn at(format, i);
    std::byte* tile = unit + at.tile * tile_bytes;
    reinterpret_cast<std::uint16_t*>(tile + format.code_bytes())[at.place] =
        unit_scale(raw, row + at.row, input + at.input);
    if (format.has_zeros()) {
      tile[format.zero_offset() + at.place] =
          static_cast<std::byte>(unit_zero(raw, row + at.row, input + at.input));
    }
    if (format.has_shifts()) {
      reinterpret_cast<std::uint16_t*>(tile + format.zero_offset())[at.place] =
          unit_shift(raw, row + at.row, input + at.input);
    }
  }
}

/// A thread has a sum.
__global__ void __launch_bounds__(kThreads)
    sum_kernel(const UnitReader weight, int n, int k, int step, int steps, float* sums) {
  const int at = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const int row = at / steps;
  if (row >= n) {
    return;
  }
  const int begin = at % steps * step;
  double sum = 0.0;
  for (int i = begin; i < min(begin + step, k); ++i) {
    const double part = __dmul_rn(static_cast<double>(weight.factor(row)), weight.integer(row, i));
    sum = __dadd_rn(sum, __dmul_rn(part, static_cast<double>(weight.scale(row, i))));
    sum = __dadd_rn(sum, static_cast<double>(weight.shift(row, i)));
  }
  sums[at] = static_cast<float>(sum);
}

}  // namespace

void pack_units(const RawRows& raw, const UnitFormat& format, std::byte* units,
                cudaStream_t stream) {
  const UnitGrid size = unit_grid(raw.count, raw.k);
  const dim3 grid(static_cast<unsigned>(size.blocks), static_cast<unsigned>(size.row_groups));
  const auto pack = [&]<CodeKind kKind>() {
    pack_kernel<kKind><<<grid, kThreads, 0, stream>>>(raw, format, units);
  };
  with_code_kind(format.codes, pack);
  device::cuda::check_launch("pack_kernel");
}

void sum_rows(const UnitsView& weight, std::int64_t step, float* sums, cudaStream_t stream) {
  const std::int64_t length = step == 0 ? weight.k : step;
  const std::int64_t steps = (weight.k + length - 1) / length;
  const unsigned blocks = device::cuda::blocks_for(weight.n * steps, kThreads);
  sum_kernel<<<blocks, kThreads, 0, stream>>>(UnitReader(weight), static_cast<int>(weight.n),
                                              static_cast<int>(weight.k), static_cast<int>(length),
                                              static_cast<int>(steps), sums);
  device::cuda::check_launch("sum_kernel");
}

}  // namespace nibble::ops::cuda
