#pragma once

#include "device/cuda/check.h"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/small_batch/float_inputs.cuh"
#include "ops/cuda/small_batch/launch.h"
#include "ops/cuda/small_batch/layer.cuh"

/// The kernel of small_batch.h, and its launch with the decoder of a kind of codes.
namespace nibble::ops::cuda {

inline constexpr int kBarrierBytes = 64;  // a warp's barriers
static_assert(kBarrierBytes >= kSmallBatchMaxStages * 8);

using RoundedRows = FloatInputs<true>;

/// Shared memory: the barriers of all warps, their rings, where the portions' sums lie, the sums,
/// what they are added to, inputs that are made here.
template <typename Layer>
struct SmallBatchMemory {
  int warps;
  int stages;
  int stage_tiles;
  int portions;  // at the most

  __host__ __device__ int barrier_bytes() const {
    return (warps * kBarrierBytes + 127) / 128 * 128;
  }
  __host__ __device__ int stage_bytes() const {
    return (stage_tiles * Layer::kTileBytes + 127) / 128 * 128;
  }
  __host__ __device__ int slots() const { return barrier_bytes() + warps * stages * stage_bytes(); }
  __host__ __device__ int sums() const {
    return slots() + portions * static_cast<int>(sizeof(SumSlots));
  }
  __host__ __device__ int olds(int m) const {
    return sums() + Layer::sum_bytes(warps, portions, m);
  }
  __host__ __device__ int inputs(const SmallBatchArguments& a) const {
    const int end = olds(a.m) + (a.add != 0 ? Layer::old_bytes(portions, a.m) : 0);
    return (end + 15) / 16 * 16;
  }
  __host__ __device__ int bytes(const SmallBatchArguments& a) const {
    return inputs(a) + (a.rows.x == nullptr
                            ? 0
                            : RoundedRows::bytes(a.m, a.layer.blocks, a.rows.order != nullptr));
  }
};

inline int most_tiles(const LayerArguments& a) {
  return a.tiles_each + (a.tiles_more > 0 ? 1 : 0);
}

template <typename Layer, int kMostWarps>
__global__ void __launch_bounds__(kMostWarps * 32)
    small_batch_kernel(const __grid_constant__ SmallBatchArguments a, int stage_tiles,
                       int portions) {
  extern __shared__ __align__(128) std::byte shared[];
  const LayerArguments& layer = a.layer;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const SmallBatchMemory<Layer> memory{warps, a.stages, stage_tiles, portions};
  const auto share = Layer::Share::of(layer.tiles_each, layer.tiles_more, layer.blocks,
                                      static_cast<int>(blockIdx.x));
  WarpRing ring(shared + memory.barrier_bytes() + warp * a.stages * memory.stage_bytes(),
                reinterpret_cast<std::uint64_t*>(shared + warp * kBarrierBytes), a.stages,
                memory.stage_bytes());
  launch_dependents();
  auto ahead = Layer::Place::first(share, warp, layer);
  const auto fill = [&] {
    if (ahead.left == 0) {
      return ring.skip();
    }
    ring.fill(layer.units + ahead.offset(layer.blocks, Layer::kTileBytes),
              share.tiles_of(ahead.tile) * Layer::kTileBytes);
    ahead.advance(share);
  };
  // What is asked for later waits for what was asked for before, three microseconds when all rings
  // are under way: so inputs are asked for in between, behind a stage of 4-bit codes or as many
  // bytes.
  constexpr int kEarlyBytes = 4400;
  constexpr int kEarlyStages = kEarlyBytes / (Layer::kPortion * Layer::kTileBytes);
  int filled = 0;
  const auto fill_up_to = [&](int stages) {
#pragma unroll 1
    for (; filled < stages; ++filled) {
      fill();
    }
  };
  fill_up_to(kEarlyStages > 1 ? min(kEarlyStages, a.stages) : 1);
  const Layer work(layer, share, reinterpret_cast<float*>(shared + memory.sums()),
                   reinterpret_cast<SumSlots*>(shared + memory.slots()),
                   static_cast<int>(threadIdx.x), warps);
  work.prefetch_rows();
  float* const olds = a.add != 0 ? reinterpret_cast<float*>(shared + memory.olds(a.m)) : nullptr;
  RoundedRows floats(a.rows, Layer::kFloats && a.rows.x != nullptr ? a.m : 0, layer.blocks,
                     shared + memory.inputs(a), static_cast<int>(threadIdx.x), warps);
  const auto wait = [&]() -> InputCodes {
    wait_for_predecessor();
    if (olds != nullptr) {
      work.copy_olds(a.m, a.y, a.ldy, olds);
    }
    if constexpr (Layer::kFloats) {
      if (a.rows.x != nullptr) {
        floats.read();
        fill_up_to(a.stages);
        return floats.make();
      }
    }
    return {a.codes, a.scales, a.m, layer.blocks, a.scales_each};
  };
  work.multiply(
      a.m, wait, [&] { fill_up_to(a.stages); }, [&] { return ring.wait(); },
      [&] {
        ring.release();
        fill();
      });
  __syncthreads();
  work.add_sums(a.m, a.y, a.ldy, olds, a.half);
}

/// Fills in how much memory the work has, and launches.
template <typename Decoder, CodeKind kCodes, int kGroups, int kDigits, int kColumns>
void launch_columns(const SmallBatchArguments& a, const SmallBatchSchedule& schedule,
                    cudaStream_t stream) {
  using Layer = FewTokenLayer<Decoder, offset_of(kCodes), kGroups, kDigits, kColumns>;
  auto* kernel = small_batch_kernel<Layer, small_batch_max_warps(kCodes)>;
  const int tiles = most_tiles(a.layer);
  const int portions = tiles / Layer::kPortion + 2;
  SmallBatchMemory<Layer> memory{schedule.warps, a.stages,
                                 tiles < Layer::kPortion ? tiles : Layer::kPortion, portions};
  while (memory.bytes(a) > max_shared_bytes() && memory.stages > 1) {
    --memory.stages;
  }
  const int bytes = memory.bytes(a);
  allow_shared_bytes(kernel, bytes);
  SmallBatchArguments fitting = a;
  fitting.stages = memory.stages;
  launch_dependent(kernel, dim3(static_cast<unsigned>(schedule.blocks)),
                   dim3(static_cast<unsigned>(schedule.warps) * 32),
                   static_cast<std::size_t>(bytes), stream, fitting, memory.stage_tiles,
                   memory.portions);
}

/// With columns for its tokens.
template <typename Decoder, CodeKind kCodes, int kGroups, int kDigits>
void launch_decoder(const SmallBatchArguments& a, const SmallBatchSchedule& schedule,
                    cudaStream_t stream) {
  constexpr int kMost = max_small_batch_columns(kCodes, kGroups, kDigits);
  const int columns = (a.m * kDigits + 7) / 8;
  if constexpr (kMost >= 4) {
    if (columns > 2) {
      return launch_columns<Decoder, kCodes, kGroups, kDigits, 4>(a, schedule, stream);
    }
  }
  if constexpr (kMost >= 2) {
    if (columns > 1) {
      return launch_columns<Decoder, kCodes, kGroups, kDigits, 2>(a, schedule, stream);
    }
  }
  launch_columns<Decoder, kCodes, kGroups, kDigits, 1>(a, schedule, stream);
}

/// Of codes in planes: two digits, groups of 128 inputs or of 32.
template <typename Decoder, CodeKind kCodes>
void launch_planes(const SmallBatchArguments& a, std::int64_t groups,
                   const SmallBatchSchedule& schedule, cudaStream_t stream) {
  groups == 1 ? launch_decoder<Decoder, kCodes, 1, 2>(a, schedule, stream)
              : launch_decoder<Decoder, kCodes, 4, 2>(a, schedule, stream);
}

}  // namespace nibble::ops::cuda
