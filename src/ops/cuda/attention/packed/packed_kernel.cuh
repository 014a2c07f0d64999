#pragma once

#include "ops/cuda/attention/packed/int8_rows.cuh"
#include "ops/cuda/attention/packed/packed_arguments.h"
#include "ops/cuda/attention/packed/packed_warp.cuh"
#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"

/// Packed attention by products of warps: a block has a tile's queries and one head, a warp 16 of
/// its rows. Keys and values come through shared memory in steps of 64, those of the next step
/// while one is computed.
namespace nibble::ops::cuda::packed {

template <int D, int kWarps>
struct Block {
  static constexpr int kThreads = kWarps * kWarp;
  static constexpr int kQueryBytes = kWarps * kWarpRows * kRowBytes<D>;
  static constexpr int kStepBytes = kStepKeys * kRowBytes<D>;  // of keys, or of values
  static constexpr int kSharedBytes = kQueryBytes + 4 * kStepBytes;

  const __half* keys;  // of the text's first row
  const __half* values;
  std::int64_t stride;
  int length;
  std::uint32_t stages;  // [2][keys, values]

  __device__ std::uint32_t keys_of(int step) const { return stages + step % 2 * 2 * kStepBytes; }
  __device__ std::uint32_t values_of(int step) const { return keys_of(step) + kStepBytes; }
  __device__ int count_of(int step) const { return min(kStepKeys, length - step * kStepKeys); }

  /// Two groups of copies, which are empty behind the last step.
  __device__ __forceinline__ void copy_step(int step) const {
    const int thread = static_cast<int>(threadIdx.x);
    const int have = count_of(step);
    const std::int64_t at = static_cast<std::int64_t>(step) * kStepKeys * stride;
    if (have > 0) {
      copy_rows<D, kStepKeys, kThreads>(keys_of(step), keys + at, stride, have, thread);
    }
    end_copies();
    if (have > 0) {
      copy_rows<D, kStepKeys, kThreads>(values_of(step), values + at, stride, have, thread);
    }
    end_copies();
  }

  /// Says where rows of a step that lie at `rows` are at the end of the range of float16.
  __device__ __forceinline__ void note(std::uint32_t rows, int step, std::byte* shared,
                                       std::int32_t* saturated) const {
    note_saturation<D, kThreads>(shared + (rows - shared_address(shared)), count_of(step),
                                 static_cast<int>(threadIdx.x), saturated);
  }

  /// Rounds the keys of a step in their place; `shared` is all of the block's memory.
  __device__ __forceinline__ void round_keys(int step, std::byte* shared) const {
    round_rows<D, kStepKeys, kThreads>(shared + (keys_of(step) - shared_address(shared)),
                                       count_of(step), static_cast<int>(threadIdx.x));
  }
};

/// Threads of a multiprocessor, for which registers must suffice.
template <int D>
inline constexpr int kResidentThreads = D <= 64   ? 512
                                        : D <= 96 ? 384
                                                  : 256;

template <class Product, int kWarps>
__global__ void __launch_bounds__(kWarps* kWarp, kResidentThreads<Product::kDim> / (kWarps * kWarp))
    attend_kernel(Arguments a) {
  extern __shared__ __align__(128) std::byte shared[];
  constexpr int D = Product::kDim;
  using ThisBlock = Block<D, kWarps>;
  launch_dependents();
  const int number = static_cast<int>(blockIdx.x);
  const PackedTile tile = a.tiles[number / a.heads];
  const int head = number % a.heads;
  wait_for_predecessor();
  if (tile.rows == 0) {
    return;
  }
  const int kv_column = head / a.group * D;
  const __half* const text = a.qkv + tile.first * a.stride;
  const ThisBlock block{text + a.keys_at + kv_column, text + a.values_at + kv_column, a.stride,
                        tile.length, shared_address(shared) + ThisBlock::kQueryBytes};
  const int warp_row = static_cast<int>(threadIdx.x) / kWarp * kWarpRows;
  const int rows = min(kWarpRows, tile.rows - warp_row);  // of this warp; it may have none
  std::byte* const queries = shared + warp_row * kRowBytes<D>;
  const std::int64_t row = tile.row + warp_row;
  if (rows > 0) {
    copy_rows<D, kWarpRows, kWarp>(shared_address(queries), a.qkv + row * a.stride + head * D,
                                   a.stride, rows, static_cast<int>(threadIdx.x) % kWarp);
  }
  block.copy_step(0);
  block.copy_step(1);
  // Each row's query, key and value are looked at by the block that has the row in its tile.
  const int own = static_cast<int>(tile.row - tile.first);
  const auto notes = [&](int step) {
    return a.saturated != nullptr && step * kStepKeys < own + tile.rows &&
           (step + 1) * kStepKeys > own;
  };
  Warp<Product> warp;
  const int steps = (tile.length + kStepKeys - 1) / kStepKeys;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    Scores scores;
    if (step == 0) {
      wait_for_copies<3>();  // all but values, and both of step 1
    } else {
      wait_for_copies<1>();  // all but values
    }
    __syncthreads();  // and every warp has done with the last step
    if (step > 0) {
      block.copy_step(step + 1);
    } else if (rows > 0) {
      if (a.saturated != nullptr) {
        note_saturation<D, kWarp>(queries, rows, static_cast<int>(threadIdx.x) % kWarp,
                                  a.saturated);
        __syncwarp();  // they may be rounded in their place
      }
      warp.load_queries(queries);
    }
    if (notes(step)) {
      block.note(block.keys_of(step), step, shared, a.saturated);
      if constexpr (Product::kRounds) {
        __syncthreads();
      }
    }
    if constexpr (Product::kRounds) {
      block.round_keys(step, shared);
      __syncthreads();
    }
    if (rows > 0) {
      warp.score(block.keys_of(step), block.count_of(step), scores);
      warp.weigh(scores, a.scale);
    }
    wait_for_copies<2>();  // all but those of the next step
    __syncthreads();
    if (notes(step)) {
      block.note(block.values_of(step), step, shared, a.saturated);
    }
    if (rows > 0) {
      warp.accumulate(block.values_of(step), block.count_of(step), scores);
    }
  }
  if (rows > 0) {
    warp.finish(queries, rows, a.y + (row * a.heads + head) * D,
                static_cast<std::int64_t>(a.heads) * D);
  }
}

template <class Product, int kWarps>
void run(const Arguments& arguments, std::int64_t blocks, cudaStream_t stream) {
  using ThisBlock = Block<Product::kDim, kWarps>;
  const auto kernel = attend_kernel<Product, kWarps>;
  allow_shared_bytes(kernel, ThisBlock::kSharedBytes);
  launch_dependent(kernel, dim3(static_cast<unsigned>(blocks)), dim3(ThisBlock::kThreads),
                   ThisBlock::kSharedBytes, stream, arguments);
}

/// `tiles` of them, of at most `tile_rows` rows.
template <class Product>
void run(const Arguments& arguments, std::int64_t tile_rows, std::int64_t tiles,
         cudaStream_t stream) {
  const std::int64_t blocks = tiles * arguments.heads;
  switch (tile_rows) {
    case 32:
      return run<Product, 2>(arguments, blocks, stream);
    case 64:
      return run<Product, 4>(arguments, blocks, stream);
    default:
      return run<Product, 8>(arguments, blocks, stream);
  }
}

}  // namespace nibble::ops::cuda::packed
