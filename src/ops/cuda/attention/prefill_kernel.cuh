#pragma once

#include <algorithm>

#include "ops/cuda/attention/fragments.cuh"
#include "ops/cuda/attention/kv_dispatch.cuh"
#include "ops/cuda/attention/prefill_unit.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/device_code/reduce.cuh"

/// Prefill attention by products of warps. A warp has 16 rows as the left operand; tiles of keys
/// and values, as they lie in their pages, are the right one. Pages come through shared memory,
/// those of the next step while this one is computed.
namespace nibble::ops::cuda::prefill {

inline constexpr int kWarps = static_cast<int>(kPrefillRows) / 16;
inline constexpr int kThreads = kWarps * kWarp;
inline constexpr int kPages = 4;  // of a step

__device__ __forceinline__ void copy_async(std::byte* to, const std::byte* from) {
  const auto target = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(from) : "memory");
}

template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ __forceinline__ void end_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <KvType K, KvType V, int D>
class Warp {
 public:
  static constexpr int kTiles = D / 16;
  static constexpr KvLayout kLayout{{K, V}, 1, D};
  static constexpr int kBlock = static_cast<int>(kLayout.block_bytes());
  static constexpr int kValuesAt = static_cast<int>(kLayout.key_bytes());
  static constexpr int kRangesAt = static_cast<int>(kLayout.key_bytes() + kLayout.value_bytes());

  __device__ Warp(const Arguments& a, const Unit& unit)
      : a_(a),
        unit_(unit),
        group_(a.heads / a.kv_heads),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        first_(unit.item.first + static_cast<int>(threadIdx.x) / kWarp * 16) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = first_ + lane_ / 4 + 8 * half;
      seen_.set(half, unit, at, group_);
      largest_[half] = -INFINITY;
      load_queries(half, seen_.has_row(half) ? at : 0);
    }
  }

  /// Pages first .. first + kPages - 1, which lie at `pages`.
  __device__ void step(const std::byte* pages, int first) {
    const int token = first * 16;
    if (__all_sync(kAllLanes, seen_.has_all(token, 16 * kPages))) {
      run<false>(pages, first);
    } else {
      run<true>(pages, first);
    }
  }

  __device__ void finish() {
    float inverse[2];
    float offset[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      inverse[half] = 1.0f / columns_sum(sum_[half]);
      offset[half] = columns_sum(offset_[half]);
    }
    const float reach = is_integer(V) ? reach_ : 1.0f;
#pragma unroll
    for (int tile = 0; tile < 2 * kTiles; ++tile) {
      const float unit = reach * (tile % 2 == 0 ? kProductUnit<V> : kHighProductUnit<V>);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        out_[tile][e] = fmaf(out_[tile][e], unit, offset[e / 2]) * inverse[e / 2];
      }
    }
    if (a_.turned) {
      turn();
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = first_ + lane_ / 4 + 8 * half;
      if (at < unit_.item.rows * group_) {
        const int head = unit_.kv_head * group_ + at % group_;
#pragma unroll
        for (int tile = 0; tile < 2 * kTiles; ++tile) {
          a_.sink.store(unit_.item.row + at / group_, head * D + 8 * tile + 2 * (lane_ % 4),
                        float2{out_[tile][2 * half], out_[tile][2 * half + 1]});
        }
      }
    }
    pad_rows(a_, unit_, first_);
  }

 private:
  __device__ __forceinline__ void load_queries(int half, int at) {
    const core::Fp16* from = query_of(a_, unit_, at) + 2 * (lane_ % 4);
    float sum = 0.0f;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const auto pair = *reinterpret_cast<const std::uint32_t*>(from + 16 * tile + 8 * part);
        queries_[tile].r[half + 2 * part] = part == 0 ? pair : for_high_columns<K>(pair);
        const float2 values = float2_of(pair);
        sum += values.x + values.y;
      }
    }
    query_sum_[half] = columns_sum(sum) * a_.scale;
  }

  /// {step, smallest} of the token 2t + column of a page's half; of keys, or of values.
  __device__ __forceinline__ float2 range(const std::byte* page, bool keys, int half,
                                          int column) const {
    const std::byte* at =
        page + kRangesAt + 16 * (2 * (lane_ % 4) + column) + 4 * half + (keys ? 0 : 8);
    return float2_of(*reinterpret_cast<const std::uint32_t*>(at));
  }

  template <bool kMasked>
  __device__ __forceinline__ void run(const std::byte* pages, int first) {
    float scores[2 * kPages][4];
#pragma unroll
    for (int page = 0; page < kPages; ++page) {
      score<kMasked>(pages + page * kBlock, (first + page) * 16, scores[2 * page],
                     scores[2 * page + 1]);
    }
    rescale<kMasked>(pages, scores);
#pragma unroll
    for (int page = 0; page < kPages; ++page) {
      accumulate<kMasked>(pages + page * kBlock, (first + page) * 16, scores[2 * page],
                          scores[2 * page + 1]);
    }
  }

  /// Scores of a page whose first token has position `token`: rows g and g + 8, tokens 2t + {0, 1}
  /// and 8 behind them.
  template <bool kMasked>
  __device__ __forceinline__ void score(const std::byte* page, int token, float (&low)[4],
                                        float (&high)[4]) const {
    constexpr int kUnitTiles = 4 / kTileWords<K>;
    float c[2][4] = {};
#pragma unroll
    for (int unit = 0; unit < kTiles / kUnitTiles; ++unit) {
      std::uint32_t words[4];
      load_unit<K, true, D>(words, page, unit, lane_);
#pragma unroll
      for (int i = 0; i < kUnitTiles; ++i) {
        const Tile keys = tile_of<K, true>(words, i);
        const Tile& q = queries_[unit * kUnitTiles + i];
        multiply_add(c[0], q, keys.r[0], keys.r[2]);
        multiply_add(c[1], q, keys.r[1], keys.r[3]);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float(&scores)[4] = half == 0 ? low : high;
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        const float2 numbers = is_integer(K) ? range(page, true, half, column) : float2{1.0f, 0.0f};
        const float step = numbers.x * (a_.scale * kProductUnit<K>);
        const int position = token + 8 * half + 2 * (lane_ % 4) + column;
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          const int e = 2 * row + column;
          scores[e] = is_integer(K) ? fmaf(c[half][e], step, numbers.y * query_sum_[row])
                                    : c[half][e] * step;
          if (kMasked && !seen_.has(row, position)) {
            scores[e] = -INFINITY;
          }
        }
      }
    }
  }

  /// Online softmax: the largest scores, and the largest step of values.
  template <bool kMasked>
  __device__ __forceinline__ void rescale(const std::byte* pages,
                                          const float (&scores)[2 * kPages][4]) {
    float change[2];
    bool changed = false;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float largest = largest_[row];
#pragma unroll
      for (int tile = 0; tile < 2 * kPages; ++tile) {
        largest = fmaxf(largest, fmaxf(scores[tile][2 * row], scores[tile][2 * row + 1]));
      }
      largest = columns_max(largest);
      change[row] = relative_power(largest_[row], largest);
      changed = changed || largest != largest_[row];
      largest_[row] = largest;
    }
    float shrink = 1.0f;
    if constexpr (is_integer(V)) {
      const float now = widest_step<kMasked>(pages, scores);
      if (!(now <= reach_)) {
        shrink = reach_ / now;
        reach_ = now;
        inverse_reach_ = 1.0f / now;
        changed = true;
      }
    }
    if (__any_sync(kAllLanes, changed)) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        sum_[row] *= change[row];
        offset_[row] *= change[row];
        change[row] *= shrink;
      }
#pragma unroll
      for (int tile = 0; tile < 2 * kTiles; ++tile) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          out_[tile][e] *= change[e / 2];
        }
      }
    }
  }

  /// The largest step of the values that a row of the warp sees; NaN where one is.
  template <bool kMasked>
  __device__ __forceinline__ float widest_step(const std::byte* pages,
                                               const float (&scores)[2 * kPages][4]) const {
    __half2 widest = __half2half2(__ushort_as_half(0));
    if constexpr (!kMasked) {  // every lane has two tokens of each page
#pragma unroll
      for (int page = 0; page < kPages; ++page) {
        const auto at = reinterpret_cast<const uint2*>(pages + page * kBlock + kRangesAt + 8 +
                                                       16 * (lane_ / 4));
        const std::uint32_t steps = __byte_perm(at->x, at->y, 0x5410);
        widest = __hmax2_nan(widest, *reinterpret_cast<const __half2*>(&steps));
      }
    } else {
#pragma unroll
      for (int tile = 0; tile < 2 * kPages; ++tile) {
        std::uint32_t steps[2];
#pragma unroll
        for (int column = 0; column < 2; ++column) {
          const bool seen =
              scores[tile][column] != -INFINITY || scores[tile][2 + column] != -INFINITY;
          const std::byte* at = pages + tile / 2 * kBlock + kRangesAt + 8 + 4 * (tile % 2) +
                                16 * (2 * (lane_ % 4) + column);
          steps[column] = seen ? *reinterpret_cast<const std::uint32_t*>(at) : 0;
        }
        const std::uint32_t pair = __byte_perm(steps[0], steps[1], 0x5410);
        widest = __hmax2_nan(widest, *reinterpret_cast<const __half2*>(&pair));
      }
    }
#pragma unroll
    for (int distance = 1; distance < kWarp; distance *= 2) {
      widest = __hmax2_nan(widest, __shfl_xor_sync(kAllLanes, widest, distance));
    }
    return __half2float(__hmax_nan(__low2half(widest), __high2half(widest)));
  }

  /// A page's tokens, from position `token` on.
  template <bool kMasked>
  __device__ __forceinline__ void accumulate(const std::byte* page, int token,
                                             const float (&low)[4], const float (&high)[4]) {
    Tile weights;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float(&scores)[4] = half == 0 ? low : high;
      float w[4];
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        const float2 numbers =
            is_integer(V) ? range(page, false, half, column) : float2{1.0f, 0.0f};
        const float step = numbers.x * inverse_reach_;
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          const int e = 2 * row + column;
          const bool seen = !kMasked || scores[e] != -INFINITY;
          const float weight = kMasked ? relative_power(scores[e], largest_[row])
                                       : power_of_two(scores[e] - largest_[row]);
          sum_[row] += weight;
          w[e] = weight;
          if constexpr (is_integer(V)) {
            offset_[row] += seen ? weight * numbers.y : 0.0f;
            w[e] = seen ? weight * step : 0.0f;
          }
        }
      }
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const __half2 pair = __floats2half2_rn(w[2 * row], w[2 * row + 1]);
        weights.r[row + 2 * half] = *reinterpret_cast<const std::uint32_t*>(&pair);
      }
    }
    constexpr int kUnitTiles = 4 / kTileWords<V>;
    // What lies behind the last token may be anything: a weight of 0 does not hide it.
    const bool ragged = kMasked && !is_integer(V) && token + 16 > unit_.length;
    const int left = unit_.length - token - 2 * (lane_ % 4);
#pragma unroll
    for (int u = 0; u < kTiles / kUnitTiles; ++u) {
      std::uint32_t words[4];
      load_unit<V, false, D>(words, page + kValuesAt, u, lane_);
#pragma unroll
      for (int i = 0; i < kUnitTiles; ++i) {
        Tile values = tile_of<V, false>(words, i);
        if (ragged) {
          values.r[0] = masked(values.r[0], left > 0, left > 1);
          values.r[1] = masked(values.r[1], left > 0, left > 1);
          values.r[2] = masked(values.r[2], left > 8, left > 9);
          values.r[3] = masked(values.r[3], left > 8, left > 9);
        }
        const int tile = 2 * (u * kUnitTiles + i);
        multiply_add(out_[tile], weights, values.r[0], values.r[2]);
        multiply_add(out_[tile + 1], weights, values.r[1], values.r[3]);
      }
    }
  }

  /// Each row's head times H: elements 8 tile + 2t + {0, 1}.
  __device__ __forceinline__ void turn() {
    const float scale = 1.0f / sqrtf(static_cast<float>(D));
#pragma unroll
    for (int tile = 0; tile < 2 * kTiles; ++tile) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const float a = out_[tile][2 * row] * scale;
        const float b = out_[tile][2 * row + 1] * scale;
        out_[tile][2 * row] = a + b;
        out_[tile][2 * row + 1] = a - b;
      }
#pragma unroll
      for (int distance = 1; distance < 4; distance *= 2) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float other = __shfl_xor_sync(kAllLanes, out_[tile][e], distance);
          out_[tile][e] = (lane_ & distance) != 0 ? other - out_[tile][e] : out_[tile][e] + other;
        }
      }
    }
#pragma unroll
    for (int distance = 1; distance < 2 * kTiles; distance *= 2) {
#pragma unroll
      for (int tile = 0; tile < 2 * kTiles; ++tile) {
        if ((tile & distance) == 0) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float a = out_[tile][e];
            const float b = out_[tile + distance][e];
            out_[tile][e] = a + b;
            out_[tile + distance][e] = a - b;
          }
        }
      }
    }
  }

  const Arguments& a_;
  const Unit& unit_;
  int group_;
  int lane_;
  int first_;  // the warp's first row
  SeenPositions seen_;
  Tile queries_[kTiles];
  float query_sum_[2];  // times the scale of scores
  float out_[2 * kTiles][4] = {};
  float largest_[2];
  float sum_[2] = {};
  float offset_[2] = {};
  float reach_ = kCodeUnit;  // largest step of values, from the smallest float16 on
  float inverse_reach_ = 1.0f / kCodeUnit;
};

template <KvType K, KvType V, int D>
__device__ __forceinline__ void copy_pages(const Arguments& a, const Unit& unit, int first,
                                           std::byte* to) {
  constexpr int kBlock = Warp<K, V, D>::kBlock;
  constexpr int kChunks = kBlock / 16;
#pragma unroll
  for (int page = 0; page < kPages; ++page) {
    if (first + page < unit.end) {
      const std::int64_t id = a.plan.table[unit.item.table + first + page];
      const std::byte* from = a.pages + (id * a.kv_heads + unit.kv_head) * kBlock;
      for (int chunk = static_cast<int>(threadIdx.x); chunk < kChunks; chunk += kThreads) {
        copy_async(to + page * kBlock + chunk * 16, from + chunk * 16);
      }
    }
  }
  end_copies();
}

template <KvType K, KvType V, int D>
__global__ void __launch_bounds__(kThreads) attend_kernel(Arguments a) {
  extern __shared__ __align__(128) std::byte stages[];  // [2, kPages, block]
  constexpr int kStage = kPages * Warp<K, V, D>::kBlock;
  launch_dependents();
  wait_for_predecessor();
  const int units = a.plan.counts[1] * a.kv_heads;
  for (int number = static_cast<int>(blockIdx.x); number < units;
       number += static_cast<int>(gridDim.x)) {
    const Unit unit(a, number);
    copy_pages<K, V, D>(a, unit, unit.begin, stages);
    Warp<K, V, D> warp(a, unit);
    int stage = 0;
    for (int page = unit.begin; page < unit.end; page += kPages, stage ^= 1) {
      copy_pages<K, V, D>(a, unit, page + kPages, stages + (stage ^ 1) * kStage);
      wait_for_copies<1>();
      __syncthreads();
      warp.step(stages + stage * kStage, page);
      __syncthreads();
    }
    wait_for_copies<0>();
    warp.finish();
  }
}

template <KvType K, KvType V, int D>
void run(const Arguments& arguments, std::int64_t max_units, cudaStream_t stream) {
  constexpr int kShared = 2 * kPages * Warp<K, V, D>::kBlock;
  static const int resident = resident_blocks(attend_kernel<K, V, D>, kThreads, kShared);
  const auto grid = std::clamp<std::int64_t>(max_units, 1, resident);
  launch_dependent(attend_kernel<K, V, D>, dim3(static_cast<unsigned>(grid)), dim3(kThreads),
                   kShared, stream, arguments);
}

}  // namespace nibble::ops::cuda::prefill
