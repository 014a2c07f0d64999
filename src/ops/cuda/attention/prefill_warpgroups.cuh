#pragma once

#include <algorithm>

#include "ops/cuda/attention/fragments.cuh"
#include "ops/cuda/attention/kv_dispatch.cuh"
#include "ops/cuda/attention/prefill_unit.cuh"
#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/device_code/bulk_copy.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/sm90a.cuh"
#include "ops/cuda/device_code/wgmma.cuh"

/// Prefill attention by products of warpgroups (sm_90a), for keys and values in float16: their
/// pages are right operands as they lie (kv_layout.h), queries and weights left ones in registers.
/// Warpgroup 0 copies pages into a ring; each of the others has 64 rows and the same keys.
namespace nibble::ops::cuda::prefill {

template <int D>
struct Warpgroups {
  static constexpr int kCount = static_cast<int>(kPrefillRows) / 64;  // that multiply
  static constexpr int kThreads = 128 * (1 + kCount);
  static constexpr int kPages = 8;  // of a stage: keys of all, then values of all
  static constexpr int kTokens = kPages * static_cast<int>(kPageTokens);
  static constexpr int kHalf = static_cast<int>(kPageTokens) * D * 2;  // bytes of a page's keys
  static constexpr int kStage = 2 * kPages * kHalf;
  static constexpr int kStages = 3;
  static constexpr int kShared = kStages * kStage;
  static constexpr int kDims = 128;         // bytes to the matrix of the next 8 dims
  static constexpr int kEight = kHalf / 2;  // and to that of the next 8 tokens
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// The ring of stages in shared memory, as each side of it goes round.
template <int D>
class Ring {
  using W = Warpgroups<D>;

 public:
  __device__ Ring(std::byte* memory, std::uint64_t* barriers)
      : memory_(memory), barriers_(shared_address(barriers)) {}

  /// By one thread, before all others use it.
  __device__ void init() const {
#pragma unroll
    for (int stage = 0; stage < W::kStages; ++stage) {
      init_barrier(full(stage), 1);
      init_barrier(empty(stage), 4 * W::kCount);
    }
    publish_barriers();
  }
  __device__ std::byte* keys() const {
    return memory_ + stage_ * W::kStage;
  }
  __device__ std::byte* values() const {
    return keys() + W::kStage / 2;
  }
  __device__ std::uint32_t filling() const {
    return full(stage_);
  }
  __device__ void wait_full() const {
    wait_barrier(full(stage_), parity_);
  }
  __device__ void wait_empty() const {
    wait_barrier(empty(stage_), parity_ ^ 1);
  }
  /// By every lane of a warp that has read the stage.
  __device__ void release() const {
    __syncwarp();
    if (threadIdx.x % kWarp == 0) {
      arrive(empty(stage_));
    }
  }
  __device__ void advance() {
    if (++stage_ == W::kStages) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }

 private:
  __device__ std::uint32_t full(int stage) const {
    return barriers_ + 16 * stage;
  }
  __device__ std::uint32_t empty(int stage) const {
    return barriers_ + 16 * stage + 8;
  }

  std::byte* memory_;
  std::uint32_t barriers_;  // [kStages, 2]
  int stage_ = 0;
  std::uint32_t parity_ = 0;
};

/// Numbers of this block's units, the longest first: blocks take turns from both ends, so that all
/// of them have about as much to do.
class UnitTurns {
 public:
  __device__ int number() const {
    const auto block = static_cast<int>(blockIdx.x);
    const auto blocks = static_cast<int>(gridDim.x);
    return round_ * blocks + (round_ % 2 == 0 ? block : blocks - 1 - block);
  }
  __device__ void advance() { ++round_; }

 private:
  int round_ = 0;
};

/// By one warp.
template <int D>
__device__ __forceinline__ void copy_stages(const Arguments& a, int units, Ring<D> ring) {
  using W = Warpgroups<D>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (UnitTurns turn; turn.number() < units; turn.advance()) {
    const Unit unit(a, turn.number());
    for (int first = unit.begin; first < unit.end; first += W::kPages, ring.advance()) {
      const int pages = min(W::kPages, unit.end - first);
      const std::int64_t id = a.plan.table[unit.item.table + first + min(lane, pages - 1)];
      const std::byte* from = a.pages + (id * a.kv_heads + unit.kv_head) * 2 * W::kHalf;
      ring.wait_empty();
      if (lane == 0) {
        arrive_expecting(ring.filling(), static_cast<std::uint32_t>(2 * pages * W::kHalf));
      }
      __syncwarp();
      if (lane < pages) {
        copy_bytes(shared_address(ring.keys()) + lane * W::kHalf, from, W::kHalf, ring.filling());
        copy_bytes(shared_address(ring.values()) + lane * W::kHalf, from + W::kHalf, W::kHalf,
                   ring.filling());
      }
    }
  }
}

/// 64 rows of a unit, in one warpgroup. Lane 4g + t of warp w has rows 16 w + g and 8 behind it.
template <int D>
class Rows {
  using W = Warpgroups<D>;
  static constexpr int kTiles = D / 16;

 public:
  __device__ Rows(const Arguments& a, const Unit& unit)
      : a_(a),
        unit_(unit),
        group_(a.heads / a.kv_heads),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        first_(unit.item.first + (static_cast<int>(threadIdx.x) - 128) / kWarp * 16),
        last_position_(unit.item.position + last_row() / group_) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = row(half);
      seen_.set(half, unit, at, group_);
      largest_[half] = -INFINITY;
      load_queries(half, seen_.has_row(half) ? at : 0);
    }
  }

  /// Whether any row of the warpgroup sees tokens from position `token` on.
  __device__ bool sees(int token) const {
    return token <= last_position_;
  }

  /// The tokens of a stage, from position `token` on.
  __device__ __forceinline__ void step(std::byte* keys, std::byte* values, int token) {
    float scores[W::kTokens / 2];
    begin_products();
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      multiply(scores, queries_[tile],
               describe_matrices(shared_address(keys) + 2 * tile * W::kDims, W::kDims, W::kEight),
               tile > 0);
    }
    commit_products();
    if (token + W::kTokens > unit_.length) {
      clear_behind(values, unit_.length - token);
    }
    wait_products<0>();
    settle_all(scores);
    std::uint32_t weights[W::kPages][4];
    if (__all_sync(kAllLanes, seen_.has_all(token, W::kTokens))) {
      weigh<false>(scores, token, weights);
    } else {
      weigh<true>(scores, token, weights);
    }
    begin_products();
#pragma unroll
    for (int page = 0; page < W::kPages; ++page) {
      multiply<true>(
          out_, weights[page],
          describe_matrices(shared_address(values) + page * W::kHalf, W::kEight, W::kDims), true);
    }
    commit_products();
    wait_products<0>();
    settle_all(out_);
  }

  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float inverse = 1.0f / columns_sum(sum_[half]);
      if (row(half) < unit_.item.rows * group_) {
        const int head = unit_.kv_head * group_ + row(half) % group_;
#pragma unroll
        for (int tile = 0; tile < 2 * kTiles; ++tile) {
          a_.sink.store(
              unit_.item.row + row(half) / group_, head * D + 8 * tile + 2 * (lane_ % 4),
              float2{out_[4 * tile + 2 * half] * inverse, out_[4 * tile + 2 * half + 1] * inverse});
        }
      }
    }
    pad_rows(a_, unit_, first_);
  }

 private:
  __device__ int row(int half) const {
    return first_ + lane_ / 4 + 8 * half;
  }
  __device__ int last_row() const {
    return min(unit_.item.rows * group_, first_ / 64 * 64 + 64) - 1;
  }

  __device__ __forceinline__ void load_queries(int half, int at) {
    const core::Fp16* from = query_of(a_, unit_, at) + 2 * (lane_ % 4);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        queries_[tile][half + 2 * part] =
            *reinterpret_cast<const std::uint32_t*>(from + 16 * tile + 8 * part);
      }
    }
  }

  // Values behind the last token may be anything, which a weight of 0 does not hide.
  __device__ __forceinline__ void clear_behind(std::byte* values, int tokens) const {
    constexpr int kPieces = D / 8;
    const int thread = static_cast<int>(threadIdx.x) % 128;
    for (int i = tokens * kPieces + thread; i < W::kTokens * kPieces; i += 128) {
      const int token = i / kPieces;
      *reinterpret_cast<uint4*>(values + token / 8 * W::kEight + i % kPieces * W::kDims +
                                token % 8 * 16) = {};
    }
    fence_before_copies();  // products read as copies write
    meet_in_warpgroup();
  }

  /// Scores become weights, as left operands of one page each (online softmax).
  template <bool kMasked>
  __device__ __forceinline__ void weigh(float (&scores)[W::kTokens / 2], int token,
                                        std::uint32_t (&weights)[W::kPages][4]) {
    if constexpr (kMasked) {
#pragma unroll
      for (int i = 0; i < W::kTokens / 2; ++i) {
        const int position = token + 8 * (i / 4) + 2 * (lane_ % 4) + i % 2;
        if (!seen_.has(i % 4 / 2, position)) {
          scores[i] = -INFINITY;
        }
      }
    }
    float change[2];
    bool changed = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = -INFINITY;
#pragma unroll
      for (int i = 0; i < W::kTokens / 8; ++i) {
        largest = fmaxf(largest, fmaxf(scores[4 * i + 2 * half], scores[4 * i + 2 * half + 1]));
      }
      largest = fmaxf(largest_[half], columns_max(largest) * a_.scale);
      change[half] = relative_power(largest_[half], largest);
      changed = changed || largest != largest_[half];
      largest_[half] = largest;
    }
    if (__any_sync(kAllLanes, changed)) {
      sum_[0] *= change[0];
      sum_[1] *= change[1];
#pragma unroll
      for (int i = 0; i < D / 2; ++i) {
        out_[i] *= change[i % 4 / 2];
      }
    }
#pragma unroll
    for (int page = 0; page < W::kPages; ++page) {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const int half = part % 2;
        const int at = 8 * page + 4 * (part / 2) + 2 * half;
        const float first = weight<kMasked>(scores[at], half);
        const float second = weight<kMasked>(scores[at + 1], half);
        sum_[half] += first + second;
        const __half2 pair = __floats2half2_rn(first, second);
        weights[page][part] = *reinterpret_cast<const std::uint32_t*>(&pair);
      }
    }
  }

  template <bool kMasked>
  __device__ __forceinline__ float weight(float score, int half) const {
    return kMasked && score == -INFINITY ? 0.0f
                                         : power_of_two(fmaf(score, a_.scale, -largest_[half]));
  }

  const Arguments& a_;
  const Unit& unit_;
  int group_;
  int lane_;
  int first_;          // the warp's first row
  int last_position_;  // of the warpgroup's rows
  SeenPositions seen_;
  std::uint32_t queries_[kTiles][4];
  float out_[D / 2] = {};
  float largest_[2];
  float sum_[2] = {};
};

template <int D>
__device__ __forceinline__ void attend_rows(const Arguments& a, int units, Ring<D> ring) {
  using W = Warpgroups<D>;
  const int warpgroup = static_cast<int>(threadIdx.x) / 128 - 1;
  for (UnitTurns turn; turn.number() < units; turn.advance()) {
    const Unit unit(a, turn.number());
    const bool works = unit.item.first + 64 * warpgroup < unit.item.rows * (a.heads / a.kv_heads);
    Rows<D> rows(a, unit);
    for (int first = unit.begin; first < unit.end; first += W::kPages, ring.advance()) {
      ring.wait_full();
      const int token = first * static_cast<int>(kPageTokens);
      if (works && rows.sees(token)) {
        rows.step(ring.keys(), ring.values(), token);
      }
      ring.release();
    }
    if (works) {
      rows.finish();
    }
  }
}

#endif

template <int D>
__global__ void __launch_bounds__(Warpgroups<D>::kThreads, 1)
    attend_warpgroups_kernel(const __grid_constant__ Arguments a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using W = Warpgroups<D>;
  extern __shared__ __align__(1024) std::byte stages[];
  __shared__ std::uint64_t barriers[2 * W::kStages];
  const Ring<D> ring(stages, barriers);
  if (threadIdx.x == 0) {
    ring.init();
  }
  __syncthreads();
  launch_dependents();
  wait_for_predecessor();
  const int units = a.plan.counts[1] * a.kv_heads;
  if (threadIdx.x < 128) {
    set_registers<40, false>();
    if (threadIdx.x < kWarp) {
      copy_stages<D>(a, units, ring);
    }
  } else {
    set_registers<232, true>();
    attend_rows<D>(a, units, ring);
  }
#endif
}

/// Whether warpgroups can take it: on this device, and in this build.
template <int D>
bool has_warpgroups() {
  static const bool runs = runs_for_sm90a(attend_warpgroups_kernel<D>);
  return runs;
}

template <int D>
void run_warpgroups(const Arguments& arguments, std::int64_t max_units, cudaStream_t stream) {
  using W = Warpgroups<D>;
  static const int resident = resident_blocks(attend_warpgroups_kernel<D>, W::kThreads, W::kShared);
  const auto grid = std::clamp<std::int64_t>(max_units, 1, resident);
  launch_dependent(attend_warpgroups_kernel<D>, dim3(static_cast<unsigned>(grid)),
                   dim3(W::kThreads), W::kShared, stream, arguments);
}

}  // namespace nibble::ops::cuda::prefill
