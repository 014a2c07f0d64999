#pragma once

#include <algorithm>

#include "ops/cuda/attention/attention.h"
#include "ops/cuda/attention/fragments.cuh"
#include "ops/cuda/attention/head_output.cuh"
#include "ops/cuda/device_code/divisor.h"
#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/device_code/mma.cuh"
#include "ops/cuda/device_code/reduce.cuh"

/// What one warp does with a few pages of keys and values (decode_kernel.cuh).
namespace nibble::ops::cuda::decode {

inline constexpr int kWarps = 4;
inline constexpr int kColumns = 8;       // query heads of one pass
inline constexpr int kStepBytes = 8704;  // of keys and values that a warp takes in one step

/// Rows that append_attend() takes on their way.
struct NewRows {
  AttentionLayer layer;
  const float* qkv;  // [m, (heads + 2 kv_heads) D]
  std::byte* pages;  // Arguments::pages
};

struct Arguments {
  const core::Fp16* queries;  // or null: of new rows
  const std::byte* pages;
  DevicePlan plan;
  float* partials;
  HeadSink sink;
  int heads;
  int kv_heads;
  int group;            // query heads of a KV head
  Divisor passes;       // over a KV head, kColumns query heads each
  Divisor item_passes;  // over all KV heads
  float scale;          // of scores, times log2 e
  bool turned;          // results are turned back
  bool at_once;         // no team has more than one unit
  NewRows rows;
};

template <KvType K, KvType V, int D>
struct Shape {
  static constexpr int kTiles = D / 16;
  static constexpr KvLayout kLayout{{K, V}, 1, D};
  static constexpr bool kRanges = kLayout.range_bytes() > 0;
  static constexpr int kBlock = static_cast<int>(kLayout.block_bytes());
  static constexpr int kValuesAt = static_cast<int>(kLayout.key_bytes());
  static constexpr int kRangesAt = static_cast<int>(kLayout.key_bytes() + kLayout.value_bytes());
  static constexpr int kCopied = kRangesAt + static_cast<int>(kLayout.range_bytes());
  /// Pages of one step of a warp, and steps that lie in shared memory: the next ones are copied
  /// while this one is computed.
  static constexpr int kPages = std::clamp(kStepBytes / kBlock, 1, 4);
  static constexpr int kStages = 2;
  static constexpr int kStage = kPages * kBlock;
};

/// The larger of both halves, over lanes that are kFirst apart and more; NaN where one is.
template <int kFirst>
__device__ __forceinline__ float largest_half(__half2 most) {
#pragma unroll
  for (int distance = kFirst; distance < kWarp; distance *= 2) {
    most = __hmax2_nan(most, __shfl_xor_sync(kAllLanes, most, distance));
  }
  return __half2float(__hmax_nan(__low2half(most), __high2half(most)));
}

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
  float unit;        // 1 / reach

  /// Before any keys.
  static __device__ __forceinline__ Running none() {
    Running running{};
    running.largest[0] = running.largest[1] = -INFINITY;
    running.reach = kCodeUnit;  // the smallest float16
    running.unit = 1.0f / kCodeUnit;
    return running;
  }

  /// Values with steps of up to `now` follow, more than `reach`, or NaN; what `out` has to be
  /// multiplied by.
  __device__ __forceinline__ float widen_to(float now) {
    const float shrink = reach / now;
    reach = now;
    unit = 1.0f / now;
    return shrink;
  }
};

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

/// Queries of up to 8 heads as they lie in registers: lane 4g + t has of head g the elements 16 i +
/// 8 part + 2t + {0, 1}.
template <int D>
struct QueryWords {
  std::uint32_t words[D / 16][2];

  /// Heads lie `stride` apart.
  __device__ __forceinline__ void load(const core::Fp16* head0, int heads, int stride, int lane) {
    const int g = lane / 4;
#pragma unroll
    for (int tile = 0; tile < D / 16; ++tile) {
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const core::Fp16* from = head0 + g * stride + tile * 16 + 2 * (lane % 4) + 8 * part;
        words[tile][part] = g < heads ? *reinterpret_cast<const std::uint32_t*>(from) : 0;
      }
    }
  }
};

/// Queries as the 8-column operand, and their sums.
template <KvType K, int D>
struct QueryTiles {
  std::uint32_t b[D / 16][2];
  float sums[2];  // of heads 2t and 2t + 1, times the scale of scores

  __device__ __forceinline__ QueryTiles(const QueryWords<D>& q, float scale, int lane) {
    const int t = lane % 4;
    float sum = 0.0f;
#pragma unroll
    for (int tile = 0; tile < D / 16; ++tile) {
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const std::uint32_t halves = q.words[tile][part];
        b[tile][part] = part == 0 ? halves : for_high_columns<K>(halves);
        const float2 pair = float2_of(halves);
        sum += pair.x + pair.y;
      }
    }
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
    sums[0] = __shfl_sync(kAllLanes, sum, 8 * t) * scale;
    sums[1] = __shfl_sync(kAllLanes, sum, 8 * t + 4) * scale;
  }
};

/// The products of a page's keys with the queries: sums of even and of odd tiles, since a product
/// waits for the one before it.
template <KvType K, int D>
__device__ __forceinline__ void multiply_keys(const QueryTiles<K, D>& q, const std::byte* page,
                                              int lane, float (&sums)[2][4]) {
  constexpr int kUnitTiles = 4 / kTileWords<K>;
#pragma unroll
  for (int unit = 0; unit < D / 16 / kUnitTiles; ++unit) {
    std::uint32_t words[4];
    load_unit<K, true, D>(words, page, unit, lane);
#pragma unroll
    for (int k = 0; k < kUnitTiles; ++k) {
      const int tile = unit * kUnitTiles + k;
      multiply_add(sums[tile % 2], tile_of<K, true>(words, k), q.b[tile][0], q.b[tile][1]);
    }
  }
}

/// Adds the products of a page's values with the weights of its tokens, rows 2t and 2t + 1 (low)
/// and those 8 further on (high) of the column operand. `hide` may change a tile.
template <KvType V, int D, typename Hide>
__device__ __forceinline__ void multiply_values(const std::byte* page, int lane, std::uint32_t low,
                                                std::uint32_t high, Running<D>& running,
                                                const Hide& hide) {
  constexpr int kUnitTiles = 4 / kTileWords<V>;
#pragma unroll
  for (int unit = 0; unit < D / 16 / kUnitTiles; ++unit) {
    std::uint32_t words[4];
    load_unit<V, false, D>(words, page, unit, lane);
#pragma unroll
    for (int k = 0; k < kUnitTiles; ++k) {
      Tile value = tile_of<V, false>(words, k);
      hide(value);
      multiply_add(running.out[unit * kUnitTiles + k], value, low, high);
    }
  }
}

/// One step: kPages pages of the item, from number `first` on.
template <KvType K, KvType V, int D>
struct Step {
  using S = Shape<K, V, D>;
  const std::byte* pages;   // in shared memory
  uint4 ranges[S::kPages];  // of tokens g and g + 8: keys, keys, values, values

  __device__ __forceinline__ Step(const std::byte* at, int lane) : pages(at) {
    if constexpr (S::kRanges) {
#pragma unroll
      for (int i = 0; i < S::kPages; ++i) {
        ranges[i] =
            *reinterpret_cast<const uint4*>(pages + i * S::kBlock + S::kRangesAt + lane / 4 * 16);
      }
    }
  }

  /// Whether the row sees token g (row 0) or g + 8 (row 1) of page i.
  static __device__ __forceinline__ bool sees(const DecodeItem& item, int first, int i, int row,
                                              int lane) {
    const int position = item.first + (first + i) * 16 + lane / 4 + 8 * row;
    return position >= item.begin && position < item.end;
  }

  /// scores[i]: tokens g and g + 8 of page i, heads 2t and 2t + 1; where kMasked, -infinity for
  /// tokens that the row does not see.
  template <bool kMasked>
  __device__ __forceinline__ void score(const QueryTiles<K, D>& q, const Arguments& a,
                                        const DecodeItem& item, int first, int lane,
                                        float (&scores)[S::kPages][4]) const {
#pragma unroll
    for (int i = 0; i < S::kPages; ++i) {
      if (kMasked && first + i >= item.pages) {
        scores[i][0] = scores[i][1] = scores[i][2] = scores[i][3] = -INFINITY;
        continue;
      }
      float sums[2][4] = {};
      multiply_keys(q, pages + i * S::kBlock, lane, sums);
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const float2 range =
            is_integer(K) ? float2_of(row == 0 ? ranges[i].x : ranges[i].y) : float2{1.0f, 0.0f};
        const float step = range.x * (a.scale * kProductUnit<K>);
#pragma unroll
        for (int column = 0; column < 2; ++column) {
          float& score = scores[i][2 * row + column];
          const float sum = sums[0][2 * row + column] + sums[1][2 * row + column];
          score = is_integer(K) ? fmaf(sum, step, range.y * q.sums[column]) : sum * step;
          if (kMasked && !sees(item, first, i, row, lane)) {
            score = -INFINITY;
          }
        }
      }
    }
  }

  /// The largest step of the values that are seen; NaN where one is.
  template <bool kMasked>
  __device__ __forceinline__ float reach(const DecodeItem& item, int first, int lane) const {
    __half2 most = __half2half2(__ushort_as_half(0));
#pragma unroll
    for (int i = 0; i < S::kPages; ++i) {
      std::uint32_t steps = __byte_perm(ranges[i].z, ranges[i].w, 0x5410);
      if (kMasked) {
        steps = masked(steps, sees(item, first, i, 0, lane), sees(item, first, i, 1, lane));
      }
      most = __hmax2_nan(most, *reinterpret_cast<const __half2*>(&steps));
    }
    return largest_half<4>(most);
  }

  /// Online softmax (arXiv 1805.02867), and the values' part of the product.
  template <bool kMasked>
  __device__ __forceinline__ void accumulate(const float (&scores)[S::kPages][4],
                                             const DecodeItem& item, int first, int lane,
                                             Running<D>& running) const {
    float change[2];
    float shrink = 1.0f;
    bool changed = false;
    const bool begun = running.largest[0] != -INFINITY || running.largest[1] != -INFINITY;
#pragma unroll
    for (int column = 0; column < 2; ++column) {
      float largest = running.largest[column];
#pragma unroll
      for (int i = 0; i < S::kPages; ++i) {
        largest = fmaxf(largest, fmaxf(scores[i][column], scores[i][2 + column]));
      }
      largest = rows_max(largest);
      change[column] = relative_power(running.largest[column], largest);
      changed = changed || largest != running.largest[column];
      running.largest[column] = largest;
    }
    if constexpr (is_integer(V)) {
      const float now = reach<kMasked>(item, first, lane);
      if (!(now <= running.reach)) {
        shrink = running.widen_to(now);
        changed = true;
      }
    }
    if (__any_sync(kAllLanes, changed && begun)) {
#pragma unroll
      for (int tile = 0; tile < S::kTiles; ++tile) {
        running.out[tile][0] *= change[0] * shrink;
        running.out[tile][1] *= change[1] * shrink;
        running.out[tile][2] *= change[0] * shrink;
        running.out[tile][3] *= change[1] * shrink;
      }
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        running.sum[column] *= change[column];
        running.offset[column] *= change[column];
      }
    }
#pragma unroll
    for (int i = 0; i < S::kPages; ++i) {
      if (!kMasked || first + i < item.pages) {
        accumulate_page<kMasked>(i, scores[i], item, first, lane, running);
      }
    }
  }

  template <bool kMasked>
  __device__ __forceinline__ void accumulate_page(int i, const float (&scores)[4],
                                                  const DecodeItem& item, int first, int lane,
                                                  Running<D>& running) const {
    std::uint32_t b[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float2 range =
          is_integer(V) ? float2_of(row == 0 ? ranges[i].z : ranges[i].w) : float2{1.0f, 0.0f};
      const bool seen = !kMasked || sees(item, first, i, row, lane);
      const float step = range.x * running.unit;
      float weights[2];
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        const float score = scores[2 * row + column];
        const float weight = kMasked ? relative_power(score, running.largest[column])
                                     : power_of_two(score - running.largest[column]);
        running.sum[column] += weight;
        weights[column] = weight;
        if constexpr (is_integer(V)) {
          running.offset[column] += seen ? weight * range.y : 0.0f;
          weights[column] = seen ? weight * step : 0.0f;
        }
      }
      const __half2 pair = __floats2half2_rn(weights[0], weights[1]);
      b[row] = transposed(*reinterpret_cast<const std::uint32_t*>(&pair));
    }
    // Unseen floats may be NaN, which a weight of 0 does not hide.
    constexpr bool kHides = kMasked && !is_integer(V);
    const int token = item.first + (first + i) * 16 + 2 * (lane % 4);
    const auto kept = [&](int k) { return token + k >= item.begin && token + k < item.end; };
    multiply_values<V>(pages + i * S::kBlock + S::kValuesAt, lane, b[0], b[1], running,
                       [&](Tile& value) {
                         if constexpr (kHides) {
                           value.r[0] = masked(value.r[0], kept(0), kept(1));
                           value.r[1] = masked(value.r[1], kept(0), kept(1));
                           value.r[2] = masked(value.r[2], kept(8), kept(9));
                           value.r[3] = masked(value.r[3], kept(8), kept(9));
                         }
                       });
  }

  template <bool kMasked>
  __device__ __forceinline__ void run(const QueryTiles<K, D>& q, const Arguments& a,
                                      const DecodeItem& item, int first, int lane,
                                      Running<D>& running) const {
    float scores[S::kPages][4];
    score<kMasked>(q, a, item, first, lane, scores);
    accumulate<kMasked>(scores, item, first, lane, running);
  }
};

}  // namespace nibble::ops::cuda::decode
