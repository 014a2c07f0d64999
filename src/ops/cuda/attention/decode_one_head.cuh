#pragma once

#include "ops/cuda/attention/decode_merge.cuh"
#include "ops/cuda/attention/decode_step.cuh"
#include "ops/cuda/device_code/reduce.cuh"

/// Decode attention where a KV head has one query head (no grouped queries): all eight columns of
/// the products would be that head's. So each page's scores are in every column, and lane 4g + t
/// keeps those of page t of a step, tokens g and g + 8: what a step does with scores, weights and
/// ranges is done once, where HeadsOfGroup does it for each page and two columns.
namespace nibble::ops::cuda::decode {

/// One step: kPages pages of the item, from number `first` on; keys and values are integers.
template <KvType K, KvType V, int D>
class OneHeadStep {
  static_assert(is_integer(K) && is_integer(V));
  using S = Shape<K, V, D>;
  static_assert(S::kPages <= 4);

 public:
  __device__ __forceinline__ OneHeadStep(const std::byte* pages, int lane)
      : pages_(pages), page_(lane % 4) {
    if (page_ < S::kPages) {
      ranges_ =
          *reinterpret_cast<const uint4*>(pages + page_ * S::kBlock + S::kRangesAt + lane / 4 * 16);
    }
  }

  template <bool kMasked>
  __device__ __forceinline__ void run(const QueryTiles<K, D>& q, const Arguments& a,
                                      const DecodeItem& item, int first, int lane,
                                      Running<D>& running) const {
    const int position = item.first + (first + page_) * 16 + lane / 4;
    bool seen[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int token = position + 8 * row;
      seen[row] = page_ < S::kPages && (!kMasked || (token >= item.begin && token < item.end));
    }
    float scores[2];
    score<kMasked>(q, a, item, first, lane, scores);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      scores[row] = seen[row] ? scores[row] : -INFINITY;
    }
    rescale(scores, seen, running);
    accumulate<kMasked>(scores, seen, item, first, lane, running);
  }

 private:
  // Of the lane's two tokens.
  template <bool kMasked>
  __device__ __forceinline__ void score(const QueryTiles<K, D>& q, const Arguments& a,
                                        const DecodeItem& item, int first, int lane,
                                        float (&scores)[2]) const {
    float own[2] = {};
#pragma unroll
    for (int i = 0; i < S::kPages; ++i) {
      if (kMasked && first + i >= item.pages) {
        break;
      }
      float sums[2][4] = {};
      multiply_keys(q, pages_ + i * S::kBlock, lane, sums);
      own[0] = page_ == i ? sums[0][0] + sums[1][0] : own[0];
      own[1] = page_ == i ? sums[0][2] + sums[1][2] : own[1];
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float2 range = float2_of(row == 0 ? ranges_.x : ranges_.y);
      scores[row] = fmaf(own[row], range.x * (a.scale * kProductUnit<K>), range.y * q.sums[0]);
    }
  }

  // Online softmax (arXiv 1805.02867): what is known becomes relative to the largest score and the
  // largest step of values, NaN where one is.
  __device__ __forceinline__ void rescale(const float (&scores)[2], const bool (&seen)[2],
                                          Running<D>& running) const {
    const float before = running.largest[0];
    const float largest = warp_max(fmaxf(before, fmaxf(scores[0], scores[1])));
    const std::uint32_t steps = masked(__byte_perm(ranges_.z, ranges_.w, 0x5410), seen[0], seen[1]);
    const float reach = largest_half<1>(*reinterpret_cast<const __half2*>(&steps));
    if (largest == before && reach <= running.reach) {
      return;
    }
    const float change = relative_power(before, largest);
    running.largest[0] = largest;
    float shrink = 1.0f;
    if (!(reach <= running.reach)) {
      shrink = running.widen_to(reach);
    }
    if (before != -INFINITY) {
#pragma unroll
      for (int tile = 0; tile < S::kTiles; ++tile) {
#pragma unroll
        for (float& out : running.out[tile]) {
          out *= change * shrink;
        }
      }
      running.sum[0] *= change;
      running.offset[0] *= change;
    }
  }

  template <bool kMasked>
  __device__ __forceinline__ void accumulate(const float (&scores)[2], const bool (&seen)[2],
                                             const DecodeItem& item, int first, int lane,
                                             Running<D>& running) const {
    float weights[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float2 range = float2_of(row == 0 ? ranges_.z : ranges_.w);
      const float weight = relative_power(scores[row], running.largest[0]);
      running.sum[0] += weight;
      running.offset[0] += seen[row] ? weight * range.y : 0.0f;
      weights[row] = seen[row] ? weight * (range.x * running.unit) : 0.0f;
    }
    const __half2 pair = __floats2half2_rn(weights[0], weights[1]);
#pragma unroll
    for (int i = 0; i < S::kPages; ++i) {
      if (kMasked && first + i >= item.pages) {
        break;
      }
      // Column operand: of tokens 2t and 2t + 1, and of those 8 further on.
      const int from = 8 * page_ + i;
      const std::uint32_t word = *reinterpret_cast<const std::uint32_t*>(&pair);
      const std::uint32_t even = __shfl_sync(kAllLanes, word, from);
      const std::uint32_t odd = __shfl_sync(kAllLanes, word, from + 4);
      multiply_values<V>(pages_ + i * S::kBlock + S::kValuesAt, lane,
                         __byte_perm(even, odd, 0x5410), __byte_perm(even, odd, 0x7632), running,
                         [](Tile&) {});
    }
  }

  const std::byte* pages_;  // in shared memory
  int page_;                // of the step, whose scores the lane keeps
  uint4 ranges_ = {};       // of its tokens g and g + 8: keys, keys, values, values
};

/// The one query head of a KV head (HeadsOfGroup).
struct OneHead {
  static constexpr int kMost = 1;

  template <KvType K, KvType V, int D>
  using Step = OneHeadStep<K, V, D>;

  /// In every column.
  template <int D>
  static __device__ __forceinline__ void load(QueryWords<D>& words, const core::Fp16* head, int,
                                              int, int lane) {
    words.load(head, kColumns, 0, lane);
  }

  template <KvType V, int D>
  static __device__ __forceinline__ void note(const Running<D>& running, int, int lane,
                                              Found<D, kMost>& found) {
    const float sum = warp_sum(running.sum[0]);
    const float offset = warp_sum(running.offset[0]);
    const float unit = running.reach * kProductUnit<V>;
    const float high_unit = running.reach * kHighProductUnit<V>;
    if (lane % 4 != 0) {
      return;
    }
    if (lane == 0) {
      found.largest[0] = running.largest[0];
      found.sum[0] = sum;
    }
#pragma unroll
    for (int tile = 0; tile < D / 16; ++tile) {
      found.out[0][16 * tile + lane / 4] = fmaf(running.out[tile][0], unit, offset);
      found.out[0][16 * tile + lane / 4 + 8] = fmaf(running.out[tile][2], high_unit, offset);
    }
  }
};

}  // namespace nibble::ops::cuda::decode
