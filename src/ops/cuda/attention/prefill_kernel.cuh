#pragma once

#include <algorithm>

#include "ops/cuda/attention/attention.h"
#include "ops/cuda/attention/fragments.cuh"
#include "ops/cuda/attention/head_output.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/device_code/reduce.cuh"

/// Prefill attention on tensor cores (FlashAttention-2, arXiv 2307.08691). A row here is a query
/// row and one query head of a KV head's group: row number i * group + head. A warp has 16 of them
/// as the left operand; tiles of keys and values, as they lie in their pages, are the right one.
/// Pages come through shared memory, those of the next step while this one is computed.
namespace nibble::ops::cuda::prefill {

inline constexpr int kWarps = static_cast<int>(kPrefillRows) / 16;
inline constexpr int kThreads = kWarps * kWarp;
inline constexpr int kPages = 4;  // of a step

struct Arguments {
  const core::Fp16* queries;
  const std::byte* pages;
  DevicePlan plan;
  HeadSink sink;
  int heads;
  int kv_heads;
  float scale;  // of scores, times log2 e
  bool turned;
};

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

/// Over the lanes that share g.
__device__ __forceinline__ float columns_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, 1));
  return fmaxf(value, __shfl_xor_sync(kAllLanes, value, 2));
}

__device__ __forceinline__ float columns_sum(float value) {
  value += __shfl_xor_sync(kAllLanes, value, 1);
  return value + __shfl_xor_sync(kAllLanes, value, 2);
}

__device__ __forceinline__ float relative_power(float a, float b) {
  return a == -INFINITY ? 0.0f : power_of_two(a - b);
}

template <KvType K, KvType V, int D>
class Warp {
 public:
  static constexpr int kTiles = D / 16;
  static constexpr KvLayout kLayout{{K, V}, 1, D};
  static constexpr int kBlock = static_cast<int>(kLayout.block_bytes());
  static constexpr int kValuesAt = static_cast<int>(kLayout.key_bytes());
  static constexpr int kRangesAt = static_cast<int>(kLayout.key_bytes() + kLayout.value_bytes());

  __device__ Warp(const Arguments& a, const PrefillItem& item, int kv_head)
      : a_(a),
        item_(item),
        group_(a.heads / a.kv_heads),
        kv_head_(kv_head),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        first_(item.first + static_cast<int>(threadIdx.x) / kWarp * 16) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = first_ + lane_ / 4 + 8 * half;
      const bool there = at < item.rows * group_;
      const int position = item.position + at / group_;
      end_[half] = there ? position + 1 : 0;
      begin_[half] = item.window > 0 ? max(0, position + 1 - item.window) : 0;
      largest_[half] = -INFINITY;
      load_queries(half, there ? at : 0);
    }
  }

  /// Pages first .. first + kPages - 1, which lie at `pages`.
  __device__ void step(const std::byte* pages, int first, int length) {
    float scores[2 * kPages][4];
    score(pages, first, scores);
    const float unit = rescale(pages, scores);
#pragma unroll
    for (int page = 0; page < kPages; ++page) {
      accumulate(pages + page * kBlock, (first + page) * 16, length, unit, scores[2 * page],
                 scores[2 * page + 1]);
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
    const float unit = is_integer(V) ? reach_ : 1.0f;
#pragma unroll
    for (int tile = 0; tile < 2 * kTiles; ++tile) {
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
      if (at < item_.rows * group_) {
        const int head = kv_head_ * group_ + at % group_;
#pragma unroll
        for (int tile = 0; tile < 2 * kTiles; ++tile) {
          a_.sink.store(item_.row + at / group_, head * D + 8 * tile + 2 * (lane_ % 4),
                        float2{out_[tile][2 * half], out_[tile][2 * half + 1]});
        }
      }
    }
    for (int at = first_; kv_head_ == a_.kv_heads - 1 && at < first_ + 16; ++at) {
      if (at < item_.rows * group_ && at % group_ == group_ - 1) {
        a_.sink.pad(item_.row + at / group_);
      }
    }
  }

 private:
  __device__ __forceinline__ void load_queries(int half, int at) {
    const core::Fp16* from = a_.queries +
                             (static_cast<std::int64_t>(item_.row + at / group_) * a_.heads +
                              kv_head_ * group_ + at % group_) *
                                 D +
                             2 * (lane_ % 4);
    float sum = 0.0f;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const auto pair = *reinterpret_cast<const std::uint32_t*>(from + 16 * tile + 8 * part);
        queries_[tile].r[half + 2 * part] = pair;
        const float2 values = float2_of(pair);
        sum += values.x + values.y;
      }
    }
    query_sum_[half] = columns_sum(sum);
  }

  /// {step, smallest} of the token 2t + column of a page's half; of keys, or of values.
  __device__ __forceinline__ float2 range(const std::byte* page, bool keys, int half,
                                          int column) const {
    const std::byte* at =
        page + kRangesAt + 16 * (2 * (lane_ % 4) + column) + 4 * half + (keys ? 0 : 8);
    return float2_of(*reinterpret_cast<const std::uint32_t*>(at));
  }

  /// The next four words of a lane.
  static __device__ __forceinline__ void load_unit(std::uint32_t (&words)[4], const std::byte* from,
                                                   int unit, int lane) {
    const uint4 four = *reinterpret_cast<const uint4*>(from + 512 * unit + 16 * lane);
    words[0] = four.x;
    words[1] = four.y;
    words[2] = four.z;
    words[3] = four.w;
  }

  /// scores[2 page + half]: rows g and g + 8, tokens 8 half + 2t + {0, 1} of the page.
  __device__ __forceinline__ void score(const std::byte* pages, int first,
                                        float (&scores)[2 * kPages][4]) const {
    constexpr int kUnitTiles = 4 / kTileWords<K>;
#pragma unroll
    for (int page = 0; page < kPages; ++page) {
      float c[2][4] = {};
#pragma unroll
      for (int unit = 0; unit < kTiles / kUnitTiles; ++unit) {
        std::uint32_t words[4];
        load_unit(words, pages + page * kBlock, unit, lane_);
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
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float step = a_.scale;
          float smallest = 0.0f;
          if constexpr (is_integer(K)) {
            const float2 numbers = range(pages + page * kBlock, true, half, e % 2);
            step = numbers.x * a_.scale;
            smallest = numbers.y * a_.scale;
          }
          const int position = (first + page) * 16 + 8 * half + 2 * (lane_ % 4) + e % 2;
          const bool seen = position >= begin_[e / 2] && position < end_[e / 2];
          const float value = fmaf(c[half][e], step, smallest * query_sum_[e / 2]);
          scores[2 * page + half][e] = seen ? value : -INFINITY;
        }
      }
    }
  }

  /// Online softmax: the largest scores, and the largest step of values. Returns what their steps
  /// are multiplied by.
  __device__ __forceinline__ float rescale(const std::byte* pages,
                                           const float (&scores)[2 * kPages][4]) {
    float change[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = largest_[half];
#pragma unroll
      for (int tile = 0; tile < 2 * kPages; ++tile) {
        largest = fmaxf(largest, fmaxf(scores[tile][2 * half], scores[tile][2 * half + 1]));
      }
      largest = columns_max(largest);
      change[half] = relative_power(largest_[half], largest);
      largest_[half] = largest;
      sum_[half] *= change[half];
      offset_[half] *= change[half];
    }
    float unit = 1.0f;
    if constexpr (is_integer(V)) {
      const float now = widest_step(pages, scores);
      const float wider = now > reach_ || now != now ? now : reach_;
      change[0] *= reach_ / wider;
      change[1] *= reach_ / wider;
      reach_ = wider;
      unit = 1.0f / wider;
    }
    if (__any_sync(kAllLanes, !(change[0] == 1.0f && change[1] == 1.0f))) {
#pragma unroll
      for (int tile = 0; tile < 2 * kTiles; ++tile) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          out_[tile][e] *= change[e / 2];
        }
      }
    }
    return unit;
  }

  __device__ __forceinline__ float widest_step(const std::byte* pages,
                                               const float (&scores)[2 * kPages][4]) const {
    float widest = 0.0f;
    bool broken = false;
#pragma unroll
    for (int tile = 0; tile < 2 * kPages; ++tile) {
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        const bool seen =
            scores[tile][column] != -INFINITY || scores[tile][2 + column] != -INFINITY;
        const float step = range(pages + tile / 2 * kBlock, false, tile % 2, column).x;
        widest = fmaxf(widest, seen ? step : 0.0f);
        broken = broken || (seen && step != step);
      }
    }
    widest = warp_max(widest);
    return __any_sync(kAllLanes, broken) ? __int_as_float(0x7fc00000) : widest;
  }

  /// One page's tokens, from position `token` on.
  __device__ __forceinline__ void accumulate(const std::byte* page, int token, int length,
                                             float unit, const float (&low)[4],
                                             const float (&high)[4]) {
    Tile weights;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float(&scores)[4] = half == 0 ? low : high;
      float w[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const bool seen = scores[e] != -INFINITY;
        const float weight = relative_power(scores[e], largest_[e / 2]);
        sum_[e / 2] += weight;
        w[e] = weight;
        if constexpr (is_integer(V)) {
          const float2 numbers = range(page, false, half, e % 2);
          offset_[e / 2] += seen ? weight * numbers.y : 0.0f;
          w[e] = seen ? weight * (numbers.x * unit) : 0.0f;
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
    const bool ragged = V == KvType::kF16 && token + 16 > length;
    const int left = length - token - 2 * (lane_ % 4);
#pragma unroll
    for (int u = 0; u < kTiles / kUnitTiles; ++u) {
      std::uint32_t words[4];
      load_unit(words, page + kValuesAt, u, lane_);
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
  const PrefillItem& item_;
  int group_;
  int kv_head_;
  int lane_;
  int first_;  // the warp's first row
  int begin_[2];
  int end_[2];
  Tile queries_[kTiles];
  float query_sum_[2];
  float out_[2 * kTiles][4] = {};
  float largest_[2];
  float sum_[2] = {};
  float offset_[2] = {};
  float reach_ = 5.9604645e-8f;  // the smallest float16
};

template <KvType K, KvType V, int D>
__device__ __forceinline__ void copy_pages(const Arguments& a, const PrefillItem& item, int kv_head,
                                           int first, int end, std::byte* to) {
  constexpr int kBlock = Warp<K, V, D>::kBlock;
  constexpr int kChunks = kBlock / 16;
#pragma unroll
  for (int page = 0; page < kPages; ++page) {
    if (first + page < end) {
      const std::int64_t id = a.plan.table[item.table + first + page];
      const std::byte* from = a.pages + (id * a.kv_heads + kv_head) * kBlock;
      for (int chunk = static_cast<int>(threadIdx.x); chunk < kChunks; chunk += kThreads) {
        copy_async(to + page * kBlock + chunk * 16, from + chunk * 16);
      }
    }
  }
  end_copies();
}

template <KvType K, KvType V, int D>
__global__ void __launch_bounds__(kThreads, 2) attend_kernel(Arguments a) {
  extern __shared__ __align__(128) std::byte stages[];  // [2, kPages, block]
  constexpr int kStage = kPages * Warp<K, V, D>::kBlock;
  launch_dependents();
  wait_for_predecessor();
  const int group = a.heads / a.kv_heads;
  const int units = a.plan.counts[1] * a.kv_heads;
  for (int unit = static_cast<int>(blockIdx.x); unit < units; unit += static_cast<int>(gridDim.x)) {
    const PrefillItem item = a.plan.prefill[unit / a.kv_heads];
    const int kv_head = unit % a.kv_heads;
    const int last_row = min(item.first + static_cast<int>(kPrefillRows), item.rows * group) - 1;
    const int oldest = item.position + item.first / group + 1 - item.window;
    const int begin = item.window > 0 ? max(0, oldest) / 16 : 0;
    const int end = (item.position + last_row / group) / 16 + 1;
    const int length = min(item.position + item.rows, end * 16);  // what lies behind is not read
    copy_pages<K, V, D>(a, item, kv_head, begin, end, stages);
    Warp<K, V, D> warp(a, item, kv_head);
    int stage = 0;
    for (int page = begin; page < end; page += kPages, stage ^= 1) {
      copy_pages<K, V, D>(a, item, kv_head, page + kPages, end, stages + (stage ^ 1) * kStage);
      wait_for_copies<1>();
      __syncthreads();
      warp.step(stages + stage * kStage, page, length);
      __syncthreads();
    }
    wait_for_copies<0>();
    warp.finish();
  }
}

template <KvType K, KvType V, int D>
void run(const Arguments& arguments, std::int64_t max_units, cudaStream_t stream) {
  constexpr int kShared = 2 * kPages * Warp<K, V, D>::kBlock;
  int blocks = 0;
  int device = 0;
  int processors = 0;
  device::cuda::check(cudaGetDevice(&device), "cudaGetDevice");
  device::cuda::check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
                      "cudaDeviceGetAttribute");
  device::cuda::check(cudaFuncSetAttribute(attend_kernel<K, V, D>,
                                           cudaFuncAttributeMaxDynamicSharedMemorySize, kShared),
                      "cudaFuncSetAttribute");
  device::cuda::check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, attend_kernel<K, V, D>,
                                                                    kThreads, kShared),
                      "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  const auto grid = std::clamp<std::int64_t>(max_units, 1, blocks * processors);
  launch_dependent(attend_kernel<K, V, D>, dim3(static_cast<unsigned>(grid)), dim3(kThreads),
                   kShared, stream, arguments);
}

}  // namespace nibble::ops::cuda::prefill
