#pragma once

#include "ops/cuda/attention/attention.h"
#include "ops/cuda/attention/head_output.cuh"
#include "ops/cuda/device_code/reduce.cuh"

/// What prefill attention on tensor cores (FlashAttention-2, arXiv 2307.08691) works on, whoever
/// multiplies. A row here is a query row and one query head of a KV head's group: row number i *
/// group + head.
namespace nibble::ops::cuda::prefill {

struct Arguments {
  const core::Fp16* queries;
  const std::byte* pages;
  DevicePlan plan;
  HeadSink sink;
  int heads;
  int kv_heads;
  int head_dim;
  float scale;  // of scores, times log2 e
  bool turned;
};

/// Rows of an item with one KV head: a block's work at a time.
struct Unit {
  PrefillItem item;
  int kv_head;
  int begin;  // pages of the sequence that its rows see: [begin, end)
  int end;
  int length;  // tokens; what lies behind in the last page is not read

  __device__ Unit(const Arguments& a, int number)
      : item(a.plan.prefill[number / a.kv_heads]), kv_head(number % a.kv_heads) {
    const int group = a.heads / a.kv_heads;
    const int last_row = min(item.first + static_cast<int>(kPrefillRows), item.rows * group) - 1;
    const int oldest = item.position + item.first / group + 1 - item.window;
    begin = item.window > 0 ? max(0, oldest) / 16 : 0;
    end = (item.position + last_row / group) / 16 + 1;
    length = min(item.position + item.rows, end * 16);
  }
};

/// Positions that the two rows of a lane see: [begin, end), none where there is no such row.
struct SeenPositions {
  int begin[2];
  int end[2];

  __device__ void set(int half, const Unit& unit, int at, int group) {
    const int position = unit.item.position + at / group;
    end[half] = at < unit.item.rows * group ? position + 1 : 0;
    begin[half] = unit.item.window > 0 ? max(0, position + 1 - unit.item.window) : 0;
  }
  __device__ bool has_row(int half) const { return end[half] > 0; }
  __device__ bool has(int half, int position) const {
    return position >= begin[half] && position < end[half];
  }
  /// `count` positions from `first` on, for both rows.
  __device__ bool has_all(int first, int count) const {
    return first >= begin[0] && first >= begin[1] && first + count <= end[0] &&
           first + count <= end[1];
  }
};

/// The query of row number `at`.
__device__ __forceinline__ const core::Fp16* query_of(const Arguments& a, const Unit& unit,
                                                      int at) {
  const int group = a.heads / a.kv_heads;
  const std::int64_t row = unit.item.row + at / group;
  return a.queries + (row * a.heads + unit.kv_head * group + at % group) * a.head_dim;
}

/// Zeros behind the heads of the rows from number `first` on that a warp finishes, 16 of them.
__device__ __forceinline__ void pad_rows(const Arguments& a, const Unit& unit, int first) {
  const int group = a.heads / a.kv_heads;
  for (int at = first; unit.kv_head == a.kv_heads - 1 && at < first + 16; ++at) {
    if (at < unit.item.rows * group && at % group == group - 1) {
      a.sink.pad(unit.item.row + at / group);
    }
  }
}

/// Over the lanes that share g.
__device__ __forceinline__ float columns_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, 1));
  return fmaxf(value, __shfl_xor_sync(kAllLanes, value, 2));
}

__device__ __forceinline__ float columns_sum(float value) {
  value += __shfl_xor_sync(kAllLanes, value, 1);
  return value + __shfl_xor_sync(kAllLanes, value, 2);
}

}  // namespace nibble::ops::cuda::prefill
