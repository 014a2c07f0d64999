#pragma once

#include "ops/cuda/attention/decode_step.cuh"
#include "ops/cuda/attention/head_elements.cuh"
#include "ops/cuda/attention/head_output.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/reduce.cuh"

/// How the parts of a row that warps and blocks found become one.
namespace nibble::ops::cuda::decode {

/// What a warp found of `kHeads` heads, before it is merged with what the others of its team did.
template <int D, int kHeads>
struct alignas(16) Found {
  float out[kHeads][D + 4];  // the padding keeps lanes in different banks
  float largest[kHeads];
  float sum[kHeads];
};

/// What the warp found of the one head in column 0.
template <KvType V, int D>
__device__ __forceinline__ void note_first_head(const Running<D>& running, int lane,
                                                Found<D, 1>& found) {
  const float sum = rows_sum(running.sum[0]);
  const float offset = rows_sum(running.offset[0]);
  const float reach = is_integer(V) ? running.reach : 1.0f;
  const float unit = reach * kProductUnit<V>;
  const float high_unit = reach * kHighProductUnit<V>;
  if (lane % 4 != 0) {
    return;
  }
  const int g = lane / 4;
  if (g == 0) {
    found.largest[0] = running.largest[0];
    found.sum[0] = sum;
  }
#pragma unroll
  for (int tile = 0; tile < D / 16; ++tile) {
    found.out[0][16 * tile + g] = fmaf(running.out[tile][0], unit, offset);
    found.out[0][16 * tile + g + 8] = fmaf(running.out[tile][2], high_unit, offset);
  }
}

/// Up to kColumns query heads of a KV head, a column of the products for each.
struct HeadsOfGroup {
  static constexpr int kMost = kColumns;

  template <KvType K, KvType V, int D>
  using Step = decode::Step<K, V, D>;

  /// Queries of `heads` heads, `stride` apart.
  template <int D>
  static __device__ __forceinline__ void load(QueryWords<D>& words, const core::Fp16* head0,
                                              int heads, int stride, int lane) {
    words.load(head0, heads, stride, lane);
  }

  /// What the warp found of the first `columns` heads.
  template <KvType V, int D>
  static __device__ __forceinline__ void note(const Running<D>& running, int columns, int lane,
                                              Found<D, kMost>& found) {
    const int g = lane / 4;
    const int t = lane % 4;
#pragma unroll
    for (int column = 0; column < 2; ++column) {
      if (column >= columns) {
        break;
      }
      const float sum = rows_sum(running.sum[column]);
      const float offset = rows_sum(running.offset[column]);
      const float reach = is_integer(V) ? running.reach : 1.0f;
      const float unit = reach * kProductUnit<V>;
      const float high_unit = reach * kHighProductUnit<V>;
      const int head = 2 * t + column;
      if (g == 0) {
        found.largest[head] = running.largest[column];
        found.sum[head] = sum;
      }
#pragma unroll
      for (int tile = 0; tile < D / 16; ++tile) {
        found.out[head][16 * tile + g] = fmaf(running.out[tile][column], unit, offset);
        found.out[head][16 * tile + g + 8] = fmaf(running.out[tile][2 + column], high_unit, offset);
      }
    }
  }
};

/// Softmax numerators of one head, their sum and the score they are relative to; lane l has
/// elements 4l .. 4l + 3.
struct Part {
  float4 out = {};
  float largest = -INFINITY;
  float sum = 0.0f;

  /// `share`: what its numbers are worth beside `largest`.
  __device__ __forceinline__ void add(float share, float4 other_out, float other_sum) {
    out = {fmaf(share, other_out.x, out.x), fmaf(share, other_out.y, out.y),
           fmaf(share, other_out.z, out.z), fmaf(share, other_out.w, out.w)};
    sum = fmaf(share, other_sum, sum);
  }
};

/// A head of what `kParts` warps found.
template <int kParts, int D, int kHeads>
__device__ __forceinline__ Part merged(const Found<D, kHeads>* found, int column, int lane) {
  Part part;
#pragma unroll
  for (int from = 0; from < kParts; ++from) {
    part.largest = fmaxf(part.largest, found[from].largest[column]);
  }
#pragma unroll
  for (int from = 0; from < kParts; ++from) {
    const float* out = found[from].out[column] + min(4 * lane, D - 4);
    part.add(relative_power(found[from].largest[column], part.largest),
             *reinterpret_cast<const float4*>(out), found[from].sum[column]);
  }
  return part;
}

/// `may_turn`: whether there are turned values of this type.
template <int D>
__device__ __forceinline__ void finish(const Arguments& a, const Part& part, std::int64_t row,
                                       int head, bool may_turn) {
  const float inverse = 1.0f / part.sum;
  float out[4] = {part.out.x * inverse, part.out.y * inverse, part.out.z * inverse,
                  part.out.w * inverse};
  if (may_turn && a.turned) {
    turn_head<D>(out);  // as in HeadElements<D, 4>; further lanes have none
  }
  a.sink.store_head<D>(row, head, {out[0], out[1], out[2], out[3]});
}

/// Where a split's part of a head lies: D values, the largest score and the sum.
template <int D>
__device__ __forceinline__ float2* partial_of(const Arguments& a, const DecodeItem& item, int split,
                                              int head) {
  return reinterpret_cast<float2*>(
      a.partials + (static_cast<std::int64_t>(item.partial + split) * a.heads + head) * (D + 2));
}

/// Merges the team's parts, found[0 ..], of this warp's heads.
template <KvType V, typename Team, int D, int kHeads>
__device__ __forceinline__ void merge_warps(const Arguments& a, const DecodeItem& item,
                                            int first_head, int columns,
                                            const Found<D, kHeads>* found) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int column = Team::warp(); column < columns; column += Team::kCount) {
    const Part part = merged<Team::kCount>(found, column, lane);
    if (item.splits == 1) {
      finish<D>(a, part, item.row, first_head + column, V == KvType::kInt4);
      continue;
    }
    float2* to = partial_of<D>(a, item, item.split, first_head + column);
    if (lane < D / 4) {
      to[2 * lane] = {part.out.x, part.out.y};
      to[2 * lane + 1] = {part.out.z, part.out.w};
    }
    if (lane == 0) {
      to[D / 2] = {part.largest, part.sum};
    }
  }
}

/// Merges the splits of one row and head, in their order; by one warp.
template <int D>
__device__ __forceinline__ void merge_splits(const Arguments& a, const DecodeItem& item, int head) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  static_assert(kMostSplits <= kWarp);
  constexpr int kAhead = 8;  // splits that are asked for at once
  const float2 numbers =
      lane < item.splits ? partial_of<D>(a, item, lane, head)[D / 2] : float2{-INFINITY, 0.0f};
  Part part;
  part.largest = warp_max(numbers.x);
  const float share = relative_power(numbers.x, part.largest);
  part.sum = warp_sum(share * numbers.y);
  const int at = min(2 * lane, D / 2 - 2);
  for (int begin = 0; begin < item.splits; begin += kAhead) {
    float2 first[kAhead];
    float2 second[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const float2* from = partial_of<D>(a, item, min(begin + i, item.splits - 1), head) + at;
      first[i] = from[0];
      second[i] = from[1];
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const float weight = __shfl_sync(kAllLanes, share, (begin + i) % kWarp);
      if (begin + i < item.splits) {
        part.out = {fmaf(weight, first[i].x, part.out.x), fmaf(weight, first[i].y, part.out.y),
                    fmaf(weight, second[i].x, part.out.z), fmaf(weight, second[i].y, part.out.w)};
      }
    }
  }
  finish<D>(a, part, item.row, head, true);
}

/// Merges the splits of rows that have several: a warp for each item and head, of which those of
/// first splits have work.
template <int D>
__global__ void __launch_bounds__(kWarps* kWarp) merge_kernel(Arguments a) {
  launch_dependents();
  wait_for_predecessor();
  const int units = a.plan.counts[0] * a.heads;
  const int stride = static_cast<int>(gridDim.x) * kWarps;
  for (int unit = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarp;
       unit < units; unit += stride) {
    const DecodeItem item = a.plan.decode[unit / a.heads];
    if (item.split == 0 && item.splits > 1) {
      merge_splits<D>(a, item, unit % a.heads);
    }
  }
}

}  // namespace nibble::ops::cuda::decode
