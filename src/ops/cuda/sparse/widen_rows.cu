#include <algorithm>

#include "device/cuda/check.h"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/sparse/sparse_few.h"
#include "ops/cuda/sparse/sparse_units.cuh"

namespace nibble::ops::cuda {
namespace {

constexpr int kMostWarps = 4;  // of a thread block
constexpr int kLanes = static_cast<int>(kOctet);
constexpr int kSteps = 4;  // of four octets, asked for at once

/// Rows [first, end).
struct WidenedRows {
  int first = 0;
  int end = 0;
  core::Fp16* values = nullptr;  // [end - first][k]
};

/// One of a stream's blocks for each lane of an octet.
struct BlockBits {
  uint2 codes;
  std::uint32_t word;
};

/// The octets of a stream.
struct StreamOctets {
  const std::byte* units;
  int count;
  int first_lane;  // in a unit

  __device__ StreamOctets(const SparseView& weight, const SparseShare& share, int block,
                          int stream) {
    const int warp = stream / kWarpStreams;
    const int place = block << weight.warps_log2 | warp;
    units = weight.units + static_cast<std::size_t>(place) * weight.stride * kSparseUnitBytes;
    count = 2 * warp_units(share.units, warp, weight.warps_log2);
    first_lane = stream % kWarpStreams * kLanes;
  }
  __device__ std::uint32_t word(int octet, int lane) const {
    return reinterpret_cast<const std::uint32_t*>(unit(octet) +
                                                  kSparseUnitWords)[part(octet, lane)];
  }
  __device__ BlockBits bits(int octet, int lane) const {
    return {reinterpret_cast<const uint2*>(unit(octet))[part(octet, lane)], word(octet, lane)};
  }

 private:
  __device__ const std::byte* unit(int octet) const {
    return units + static_cast<std::size_t>(octet / 2) * kSparseUnitBytes;
  }
  __device__ int part(int octet, int lane) const { return 2 * (first_lane + lane) + octet % 2; }
};

/// The octet behind the `ends`-th that ends a row.
__device__ int behind_ends(const StreamOctets& stream, int ends, int lane) {
  int at = 0;
  while (ends > 0 && at < stream.count) {
    const int octet = at + lane;
    const unsigned found =
        __ballot_sync(kAllLanes, octet < stream.count && (stream.word(octet, 0) & kEndsBit) != 0);
    const int here = __popc(found);
    if (here >= ends) {
      return at + static_cast<int>(__fns(found, 0, ends)) + 1;
    }
    ends -= here;
    at += kWarp;
  }
  return at;
}

/// What the other lane of a pair has.
__device__ BlockBits of_other_lane(const BlockBits& block) {
  return {make_uint2(__shfl_xor_sync(kAllLanes, block.codes.x, 1),
                     __shfl_xor_sync(kAllLanes, block.codes.y, 1)),
          __shfl_xor_sync(kAllLanes, block.word, 1)};
}

/// To a row in shared memory. `high`: the block of the codes' high bits, or zeros.
__device__ void put_block(std::byte* row, const BlockBits& block, const BlockBits& high) {
  const float scale = scale_of(block.word);
  if (scale == 0.0f) {  // octets are filled up with scale 0
    return;
  }
  const int zero = static_cast<int>(zero_of(high.word) << kBlockBits | zero_of(block.word));
  std::uint32_t pairs[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int shift = 8 * (i % 4);
    const std::uint32_t low_bits = (i < 4 ? block.codes.x : block.codes.y) >> shift;
    const std::uint32_t high_bits = (i < 4 ? high.codes.x : high.codes.y) >> shift;
    const auto value = [&](std::uint32_t code) {
      return __fmul_rn(static_cast<float>(static_cast<int>(code) - zero), scale);
    };
    const __half2 pair =
        __floats2half2_rn(value((high_bits & 15u) << kBlockBits | (low_bits & 15u)),
                          value((high_bits >> 4 & 15u) << kBlockBits | (low_bits >> 4 & 15u)));
    pairs[i] = *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  auto* const target = reinterpret_cast<uint4*>(row) + 2 * index_of(block.word);
  target[0] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  target[1] = make_uint4(pairs[4], pairs[5], pairs[6], pairs[7]);
}

/// Which thread block of the few-token kernel has a row.
__device__ int share_of(const SparseView& weight, int row, int lane) {
  for (int base = 0; base < weight.blocks; base += kWarp) {
    bool has = false;
    if (base + lane < weight.blocks) {
      const SparseShare share = weight.shares[base + lane];
      has = row >= share.first_row && row < share.first_row + share.rows;
    }
    const unsigned found = __ballot_sync(kAllLanes, has);
    if (found != 0) {
      return base + __ffs(static_cast<int>(found)) - 1;
    }
  }
  return 0;  // every row is someone's
}

/// A row for each warp: its octets, of one stream after the other, become float16 in shared memory
/// and go from there in one piece.
__global__ void __launch_bounds__(kMostWarps * 32)
    widen_rows_kernel(const __grid_constant__ SparseView weight,
                      const __grid_constant__ WidenedRows to) {
  extern __shared__ __align__(16) std::byte shared[];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int row =
      to.first + static_cast<int>(blockIdx.x) * (static_cast<int>(blockDim.x) / kWarp) + warp;
  if (row >= to.end) {
    return;
  }
  const bool paired = weight.code_blocks == 2;
  const int words = weight.k / 8;  // of 16 bytes
  auto* const wide = reinterpret_cast<uint4*>(shared) + warp * words;
  for (int i = lane; i < words; i += kWarp) {
    wide[i] = make_uint4(0, 0, 0, 0);
  }
  const int block = share_of(weight, row, lane);
  const SparseShare share = weight.shares[block];
  const int local = row - share.first_row;
  const RowPieces pieces = pieces_of(weight.pieces[row]);
  const int first = static_cast<int>(pieces.first) - local;
  const int streams = kWarpStreams << weight.warps_log2;
  int at = behind_ends({weight, share, block, first},
                       local - weight.stream_rows[block * streams + first], lane);
  __syncwarp();
  for (int piece = 0; piece < static_cast<int>(pieces.count); ++piece) {
    const StreamOctets stream(weight, share, block, first + piece);
    bool ended = false;
    for (; !ended && at < stream.count; at += kSteps * kWarpStreams) {
      BlockBits bits[kSteps] = {};
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const int octet = at + step * kWarpStreams + lane / kLanes;
        if (octet < stream.count) {
          bits[step] = stream.bits(octet, lane % kLanes);
        }
      }
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const unsigned ends = __ballot_sync(kAllLanes, (bits[step].word & kEndsBit) != 0);
        const BlockBits high = paired ? of_other_lane(bits[step]) : BlockBits{};
        // Octets behind the one that ends the row are another's.
        if (!ended && (!paired || lane % 2 == 0) &&
            (ends == 0 || lane / kLanes <= (__ffs(static_cast<int>(ends)) - 1) / kLanes)) {
          put_block(reinterpret_cast<std::byte*>(wide), bits[step], high);
        }
        ended = ended || ends != 0;
      }
    }
    at = 0;
  }
  __syncwarp();
  auto* const target =
      reinterpret_cast<uint4*>(to.values + static_cast<std::size_t>(row - to.first) * weight.k);
  for (int i = lane; i < words; i += kWarp) {
    target[i] = wide[i];
  }
}

}  // namespace

void widen_rows(const SparseView& weight, std::int64_t first, std::int64_t count,
                core::Fp16* values, cudaStream_t stream) {
  WidenedRows rows;
  rows.first = static_cast<int>(first);
  rows.end = static_cast<int>(first + count);
  rows.values = values;
  const int row_bytes = weight.k * 2;
  const int warps = std::clamp(max_shared_bytes() / row_bytes, 1, kMostWarps);
  const int blocks = (static_cast<int>(count) + warps - 1) / warps;
  allow_shared_bytes(widen_rows_kernel, warps * row_bytes);
  widen_rows_kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(warps * kWarp),
                      static_cast<std::size_t>(warps * row_bytes), stream>>>(weight, rows);
  device::cuda::check(cudaGetLastError(), "widen_rows");
}

}  // namespace nibble::ops::cuda
