#pragma once

#include <algorithm>

#include "ops/cuda/attention/attention.h"
#include "ops/cuda/attention/fragments.cuh"
#include "ops/cuda/attention/head_output.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/device_code/reduce.cuh"

/// Decode attention on tensor cores, split over keys (Flash-Decoding). Keys are the 16-row operand
/// and up to 8 query heads of a KV head the 8 columns, so that 4-bit keys are read once for all of
/// them. Ranges never touch elements: with key = smallest + step * code
///   score = step (code . q) + smallest sum(q)
/// and a value's step goes into its weight, its smallest into one sum for all elements.
namespace nibble::ops::cuda::decode {

inline constexpr int kWarps = 4;
inline constexpr int kColumns = 8;  // query heads of one pass

struct Arguments {
  const core::Fp16* queries;
  const std::byte* pages;
  DevicePlan plan;
  SplitSpace space;
  HeadSink sink;
  int heads;
  int kv_heads;
  float scale;  // of scores, times log2 e
  bool turned;  // results are turned back
};

template <KvType K, KvType V, int D>
struct Shape {
  static constexpr int kTiles = D / 16;
  static constexpr int kKeyWords = kTiles * kTileWords<K>;
  static constexpr int kValueWords = kTiles * kTileWords<V>;
  static constexpr KvLayout kLayout{{K, V}, 1, D};
  static constexpr bool kRanges = kLayout.range_bytes() > 0;
  /// Pages of one step of a warp: as many as 32 registers hold keys of.
  static constexpr int kPages = std::clamp(32 / std::max(kKeyWords, kValueWords), 1, 4);
};

/// What a warp knows of the keys it has seen. Lane 4g + t: elements 16i + g and 16i + g + 8 of
/// heads 2t and 2t + 1; sums are of its own tokens.
template <int D>
struct Running {
  float out[D / 16][4];
  float largest[2];  // score
  float sum[2];      // of weights
  float offset[2];   // of weights times the smallest of values
  float reach;       // largest step of values: `out` is in units of it, so that float16 weights
                     // keep their precision
};

template <int kWords>
__device__ __forceinline__ void load_words(std::uint32_t (&words)[kWords], const std::byte* from,
                                           int lane) {
#pragma unroll
  for (int unit = 0; unit < kWords / 4; ++unit) {
    const uint4 four = __ldcs(reinterpret_cast<const uint4*>(from + unit * 512 + lane * 16));
    words[4 * unit] = four.x;
    words[4 * unit + 1] = four.y;
    words[4 * unit + 2] = four.z;
    words[4 * unit + 3] = four.w;
  }
}

/// Largest of the lanes that differ in g.
__device__ __forceinline__ float rows_max(float value) {
#pragma unroll
  for (int distance = 4; distance < kWarp; distance *= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

__device__ __forceinline__ float rows_sum(float value) {
#pragma unroll
  for (int distance = 4; distance < kWarp; distance *= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

/// exp2(a - b), 0 where a is -infinity.
__device__ __forceinline__ float relative_power(float a, float b) {
  return a == -INFINITY ? 0.0f : power_of_two(a - b);
}

/// Queries as the 8-column operand, and their sums.
template <int D>
struct QueryTiles {
  std::uint32_t b[D / 16][2];
  float sums[2];  // of heads 2t and 2t + 1

  __device__ void load(const core::Fp16* head0, int heads, int lane) {
    const int g = lane / 4;
    const int t = lane % 4;
    float sum = 0.0f;
#pragma unroll
    for (int tile = 0; tile < D / 16; ++tile) {
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const core::Fp16* from = head0 + g * D + tile * 16 + 2 * t + 8 * part;
        b[tile][part] = g < heads ? *reinterpret_cast<const std::uint32_t*>(from) : 0;
        const float2 pair = float2_of(b[tile][part]);
        sum += pair.x + pair.y;
      }
    }
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
    sums[0] = __shfl_sync(kAllLanes, sum, 8 * t);
    sums[1] = __shfl_sync(kAllLanes, sum, 8 * t + 4);
  }
};

/// One step: kPages pages of the item, from number `first` on.
template <KvType K, KvType V, int D>
struct Step {
  using S = Shape<K, V, D>;
  std::uint32_t keys[S::kPages][S::kKeyWords];
  std::uint32_t values[S::kPages][S::kValueWords];
  uint4 ranges[S::kPages];  // of tokens g and g + 8: keys, keys, values, values

  __device__ __forceinline__ void load(const Arguments& a, const std::int32_t (&ids)[S::kPages],
                                       int kv_head, int lane) {
#pragma unroll
    for (int i = 0; i < S::kPages; ++i) {
      const std::byte* block =
          a.pages +
          (static_cast<std::int64_t>(ids[i]) * a.kv_heads + kv_head) * S::kLayout.block_bytes();
      load_words(keys[i], block, lane);
      load_words(values[i], block + S::kLayout.key_bytes(), lane);
      if constexpr (S::kRanges) {
        ranges[i] = __ldcs(reinterpret_cast<const uint4*>(
            block + S::kLayout.key_bytes() + S::kLayout.value_bytes() + lane / 4 * 16));
      }
    }
  }

  /// scores[i]: tokens g and g + 8 of page i, heads 2t and 2t + 1; -infinity where the row does not
  /// see the token.
  __device__ __forceinline__ void score(const QueryTiles<D>& q, const Arguments& a,
                                        const DecodeItem& item, int first, int lane,
                                        float (&scores)[S::kPages][4]) const {
#pragma unroll
    for (int i = 0; i < S::kPages; ++i) {
      float c[4] = {};
#pragma unroll
      for (int tile = 0; tile < S::kTiles; ++tile) {
        multiply_add(c, tile_of<K, true>(keys[i], tile), q.b[tile][0], q.b[tile][1]);
      }
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const int position = item.first + (first + i) * 16 + lane / 4 + 8 * row;
        const bool seen = position >= item.begin && position < item.end;
        float step = a.scale;
        float smallest = 0.0f;
        if constexpr (is_integer(K)) {
          const float2 range = float2_of(row == 0 ? ranges[i].x : ranges[i].y);
          step = range.x * a.scale;
          smallest = range.y * a.scale;
        }
#pragma unroll
        for (int column = 0; column < 2; ++column) {
          const float score = fmaf(c[2 * row + column], step, smallest * q.sums[column]);
          scores[i][2 * row + column] = seen ? score : -INFINITY;
        }
      }
    }
  }

  /// The largest step of the values that are seen.
  __device__ __forceinline__ float reach(const float (&scores)[S::kPages][4]) const {
    std::int32_t bits = 0;
#pragma unroll
    for (int i = 0; i < S::kPages; ++i) {
      const std::int32_t low = static_cast<std::int32_t>(ranges[i].z & 0xffffu);
      const std::int32_t high = static_cast<std::int32_t>(ranges[i].w & 0xffffu);
      bits = max(bits, scores[i][0] == -INFINITY ? 0 : low);
      bits = max(bits, scores[i][2] == -INFINITY ? 0 : high);
    }
#pragma unroll
    for (int distance = 1; distance < kWarp; distance *= 2) {
      bits = max(bits, __shfl_xor_sync(kAllLanes, bits, distance));
    }
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
  }

  /// Online softmax (arXiv 1805.02867), and the values' part of the product.
  __device__ __forceinline__ void accumulate(float (&scores)[S::kPages][4],
                                             Running<D>& running) const {
    float change[2];
#pragma unroll
    for (int column = 0; column < 2; ++column) {
      float largest = running.largest[column];
#pragma unroll
      for (int i = 0; i < S::kPages; ++i) {
        largest = fmaxf(largest, fmaxf(scores[i][column], scores[i][2 + column]));
      }
      largest = rows_max(largest);
      change[column] = relative_power(running.largest[column], largest);
      running.largest[column] = largest;
      running.sum[column] *= change[column];
      running.offset[column] *= change[column];
    }
    float unit = 1.0f;
    if constexpr (is_integer(V)) {
      const float now = reach(scores);
      const float wider = now > running.reach || now != now ? now : running.reach;
      const float shrink = running.reach / wider;
      change[0] *= shrink;
      change[1] *= shrink;
      running.reach = wider;
      unit = 1.0f / wider;
    }
    if (__any_sync(kAllLanes, !(change[0] == 1.0f && change[1] == 1.0f))) {
#pragma unroll
      for (int tile = 0; tile < S::kTiles; ++tile) {
        running.out[tile][0] *= change[0];
        running.out[tile][1] *= change[1];
        running.out[tile][2] *= change[0];
        running.out[tile][3] *= change[1];
      }
    }
#pragma unroll
    for (int i = 0; i < S::kPages; ++i) {
      accumulate_page(i, scores[i], unit, running);
    }
  }

  __device__ __forceinline__ void accumulate_page(int i, const float (&scores)[4], float unit,
                                                  Running<D>& running) const {
    std::uint32_t b[2];
    bool all = true;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float2 range =
          is_integer(V) ? float2_of(row == 0 ? ranges[i].z : ranges[i].w) : float2{1.0f, 0.0f};
      const bool seen = scores[2 * row] != -INFINITY || scores[2 * row + 1] != -INFINITY;
      all = all && seen;
      float weights[2];
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        const float weight = relative_power(scores[2 * row + column], running.largest[column]);
        running.sum[column] += weight;
        if constexpr (is_integer(V)) {
          running.offset[column] += seen ? weight * range.y : 0.0f;
        }
        weights[column] = seen ? weight * (range.x * unit) : 0.0f;
      }
      const __half2 pair = __floats2half2_rn(weights[0], weights[1]);
      b[row] = transposed(*reinterpret_cast<const std::uint32_t*>(&pair));
    }
    // Bits of anything times a weight of 0 may be NaN where values are floats.
    bool kept[4] = {true, true, true, true};
    const bool some_unseen = V == KvType::kF16 && !__all_sync(kAllLanes, all);
    if (some_unseen) {
      const int t = static_cast<int>(threadIdx.x) % 4;
      const unsigned low = __ballot_sync(kAllLanes, scores[0] != -INFINITY);
      const unsigned high = __ballot_sync(kAllLanes, scores[2] != -INFINITY);
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        kept[k] = (low >> (4 * (2 * t + k)) & 1) != 0;
        kept[2 + k] = (high >> (4 * (2 * t + k)) & 1) != 0;
      }
    }
#pragma unroll
    for (int tile = 0; tile < S::kTiles; ++tile) {
      Tile value = tile_of<V, false>(values[i], tile);
      if (some_unseen) {
        value.r[0] = masked(value.r[0], kept[0], kept[1]);
        value.r[1] = masked(value.r[1], kept[0], kept[1]);
        value.r[2] = masked(value.r[2], kept[2], kept[3]);
        value.r[3] = masked(value.r[3], kept[2], kept[3]);
      }
      multiply_add(running.out[tile], value, b[0], b[1]);
    }
  }
};

/// What the warps of a block found, before they are merged.
template <int D>
struct Found {
  float out[kWarps][kColumns][D + 4];  // the padding keeps lanes in different banks
  float largest[kWarps][kColumns];
  float sum[kWarps][kColumns];
  bool last;
};

template <KvType K, KvType V, int D>
__device__ __forceinline__ void run_warp(const Arguments& a, const DecodeItem& item, int kv_head,
                                         int first_head, int columns, Found<D>& found) {
  using S = Shape<K, V, D>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  QueryTiles<D> q;
  q.load(a.queries + (static_cast<std::int64_t>(item.row) * a.heads + first_head) * D, columns,
         lane);
  Running<D> running{};
  running.largest[0] = running.largest[1] = -INFINITY;
  running.reach = 5.9604645e-8f;  // the smallest float16
  const std::int32_t* table = a.plan.table + item.table;
  std::int32_t ids[S::kPages];
  const auto read_ids = [&](int first) {
#pragma unroll
    for (int i = 0; i < S::kPages; ++i) {
      ids[i] = table[min(first + i, item.pages - 1)];
    }
  };
  read_ids(warp * S::kPages);
  for (int first = warp * S::kPages; first < item.pages; first += kWarps * S::kPages) {
    Step<K, V, D> step;
    step.load(a, ids, kv_head, lane);
    read_ids(first + kWarps * S::kPages);
    float scores[S::kPages][4];
    step.score(q, a, item, first, lane, scores);
    step.accumulate(scores, running);
  }
  const int g = lane / 4;
  const int t = lane % 4;
#pragma unroll
  for (int column = 0; column < 2; ++column) {
    const float sum = rows_sum(running.sum[column]);
    const float offset = rows_sum(running.offset[column]);
    const float unit = is_integer(V) ? running.reach : 1.0f;
    const int head = 2 * t + column;
    if (g == 0) {
      found.largest[warp][head] = running.largest[column];
      found.sum[warp][head] = sum;
    }
#pragma unroll
    for (int tile = 0; tile < S::kTiles; ++tile) {
      found.out[warp][head][16 * tile + g] = fmaf(running.out[tile][column], unit, offset);
      found.out[warp][head][16 * tile + g + 8] = fmaf(running.out[tile][2 + column], unit, offset);
    }
  }
}

/// Softmax numerators of one head, their sum and the score they are relative to; lane l has
/// elements 4l .. 4l + 3.
struct Part {
  float4 out = {};
  float largest = -INFINITY;
  float sum = 0.0f;

  __device__ void add(float4 other_out, float other_largest, float other_sum) {
    const float common = fmaxf(largest, other_largest);
    const float mine = relative_power(largest, common);
    const float other = relative_power(other_largest, common);
    const auto merge = [&](float x, float y) { return fmaf(x, mine, y * other); };
    out = {merge(out.x, other_out.x), merge(out.y, other_out.y), merge(out.z, other_out.z),
           merge(out.w, other_out.w)};
    sum = fmaf(sum, mine, other_sum * other);
    largest = common;
  }
};

template <int D>
__device__ __forceinline__ void finish(const Arguments& a, Part part, std::int64_t row, int head) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const float inverse = 1.0f / part.sum;
  float4 out = {part.out.x * inverse, part.out.y * inverse, part.out.z * inverse,
                part.out.w * inverse};
  if (a.turned) {
    turn_head<D>(out);
  }
  if (lane < D / 4) {
    a.sink.store(row, head * D + 4 * lane, out);
  }
}

/// Merges the warps' parts, and, in the last block of a row's splits, those of the splits.
template <int D>
__device__ __forceinline__ void merge(const Arguments& a, const DecodeItem& item, int first_head,
                                      int columns, Found<D>& found) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const auto partial = [&](int split, int head) {
    return a.space.partials +
           (static_cast<std::int64_t>(item.partial + split) * a.heads + first_head + head) *
               (D + 2);
  };
  for (int head = warp; head < columns; head += kWarps) {
    Part part;
    for (int from = 0; from < kWarps; ++from) {
      const float* out = found.out[from][head] + min(4 * lane, D - 4);
      part.add(*reinterpret_cast<const float4*>(out), found.largest[from][head],
               found.sum[from][head]);
    }
    if (item.splits == 1) {
      finish<D>(a, part, item.row, first_head + head);
      continue;
    }
    auto* to = reinterpret_cast<float2*>(partial(item.split, head));
    if (lane < D / 4) {
      to[2 * lane] = {part.out.x, part.out.y};
      to[2 * lane + 1] = {part.out.z, part.out.w};
    }
    if (lane == 0) {
      to[D / 2] = {part.largest, part.sum};
    }
  }
  if (item.splits == 1) {
    return;
  }
  std::uint32_t* counter =
      a.space.counters + static_cast<std::int64_t>(item.row) * a.heads + first_head;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    found.last = atomicAdd(counter, 1u) == static_cast<std::uint32_t>(item.splits - 1);
    if (found.last) {
      *counter = 0;
    }
  }
  __syncthreads();
  if (!found.last) {
    return;
  }
  __threadfence();
  for (int head = warp; head < columns; head += kWarps) {
    Part part;
#pragma unroll 4
    for (int split = 0; split < item.splits; ++split) {
      const auto* from = reinterpret_cast<const float2*>(partial(split, head));
      const int at = min(2 * lane, D / 2 - 2);
      const float2 first = __ldcg(from + at);
      const float2 second = __ldcg(from + at + 1);
      const float2 numbers = __ldcg(from + D / 2);
      part.add({first.x, first.y, second.x, second.y}, numbers.x, numbers.y);
    }
    finish<D>(a, part, item.row, first_head + head);
  }
}

template <KvType K, KvType V, int D>
__global__ void __launch_bounds__(kWarps* kWarp, 3) attend_kernel(Arguments a) {
  __shared__ Found<D> found;
  launch_dependents();
  wait_for_predecessor();
  const int group = a.heads / a.kv_heads;
  const int passes = (group + kColumns - 1) / kColumns;
  const int units = a.plan.counts[0] * a.kv_heads * passes;
  for (int unit = static_cast<int>(blockIdx.x); unit < units; unit += static_cast<int>(gridDim.x)) {
    const DecodeItem item = a.plan.decode[unit / (a.kv_heads * passes)];
    const int kv_head = unit / passes % a.kv_heads;
    const int pass = unit % passes;
    const int first_head = kv_head * group + pass * kColumns;
    const int columns = min(kColumns, group - pass * kColumns);
    run_warp<K, V, D>(a, item, kv_head, first_head, columns, found);
    __syncthreads();
    merge<D>(a, item, first_head, columns, found);
    if (first_head + columns == a.heads && item.split == 0 && threadIdx.x < kWarp) {
      a.sink.pad(item.row);
    }
    __syncthreads();
  }
}

template <KvType K, KvType V, int D>
void run(const Arguments& arguments, std::int64_t max_units, cudaStream_t stream) {
  int blocks = 0;
  int device = 0;
  int processors = 0;
  device::cuda::check(cudaGetDevice(&device), "cudaGetDevice");
  device::cuda::check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
                      "cudaDeviceGetAttribute");
  device::cuda::check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, attend_kernel<K, V, D>,
                                                                    kWarps * kWarp, 0),
                      "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  const auto grid = std::clamp<std::int64_t>(max_units, 1, blocks * processors);
  launch_dependent(attend_kernel<K, V, D>, dim3(static_cast<unsigned>(grid)), dim3(kWarps * kWarp),
                   0, stream, arguments);
}

}  // namespace nibble::ops::cuda::decode
