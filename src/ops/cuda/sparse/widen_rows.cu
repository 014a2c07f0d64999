#include "device/cuda/check.h"
#include "ops/cuda/sparse/sparse_few.h"
#include "ops/cuda/sparse/sparse_units.cuh"

namespace nibble::ops::cuda {
namespace {

/// Rows [first, end).
struct WideRows {
  int first = 0;
  int end = 0;
  core::Fp16* values = nullptr;  // [end - first][k], zeros
};

__device__ void put_block(const SparseView& weight, const WideRows& to, int row, std::uint32_t low,
                          std::uint32_t high, std::uint32_t word) {
  const float scale = scale_of(word);
  if (row < to.first || row >= to.end || scale == 0.0f) {  // octets are filled up with scale 0
    return;
  }
  const int zero = static_cast<int>(zero_of(word));
  std::uint32_t pairs[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const std::uint32_t byte = (i < 4 ? low : high) >> (8 * (i % 4));
    const __half2 pair = __floats2half2_rn(
        __fmul_rn(static_cast<float>(static_cast<int>(byte & 15u) - zero), scale),
        __fmul_rn(static_cast<float>(static_cast<int>(byte >> 4 & 15u) - zero), scale));
    pairs[i] = *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  auto* const target =
      reinterpret_cast<uint4*>(to.values + static_cast<std::size_t>(row - to.first) * weight.k +
                               index_of(word) * static_cast<std::uint32_t>(kSparseInputs));
  target[0] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  target[1] = make_uint4(pairs[4], pairs[5], pairs[6], pairs[7]);
}

__global__ void __launch_bounds__(kMostSparseWarps * 32)
    widen_rows_kernel(const __grid_constant__ SparseView weight,
                      const __grid_constant__ WideRows to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = 1 << weight.warps_log2;
  const SparseShare share = weight.shares[blockIdx.x];
  const int units = warp_units(share.units, warp, weight.warps_log2);
  if (units == 0 || share.first_row >= to.end || share.first_row + share.rows <= to.first) {
    return;
  }
  const std::byte* unit =
      weight.units +
      static_cast<std::size_t>((blockIdx.x * warps + warp) * weight.stride) * kSparseUnitBytes;
  int row = share.first_row +
            weight.stream_rows[(blockIdx.x * warps + warp) * kWarpStreams + lane / kOctet];
  for (int i = 0; i < units; ++i, unit += kSparseUnitBytes) {
    LaneUnit blocks;
    blocks.load(unit, lane);
    put_block(weight, to, row, blocks.codes.x, blocks.codes.y, blocks.words.x);
    row += (blocks.words.x & kEndsBit) != 0 ? 1 : 0;
    put_block(weight, to, row, blocks.codes.z, blocks.codes.w, blocks.words.y);
    row += (blocks.words.y & kEndsBit) != 0 ? 1 : 0;
  }
}

}  // namespace

void widen_rows(const SparseView& weight, std::int64_t first, std::int64_t count,
                core::Fp16* values, cudaStream_t stream) {
  device::cuda::check(
      cudaMemsetAsync(values, 0, static_cast<std::size_t>(count * weight.k * 2), stream),
      "cudaMemsetAsync");
  WideRows rows;
  rows.first = static_cast<int>(first);
  rows.end = static_cast<int>(first + count);
  rows.values = values;
  widen_rows_kernel<<<static_cast<unsigned>(weight.blocks), 32u << weight.warps_log2, 0, stream>>>(
      weight, rows);
  device::cuda::check(cudaGetLastError(), "widen_rows");
}

}  // namespace nibble::ops::cuda
