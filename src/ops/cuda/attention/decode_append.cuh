#pragma once

#include "ops/cuda/attention/decode_kernel.cuh"
#include "ops/cuda/attention/head_vector.cuh"
#include "ops/cuda/device_code/barrier.cuh"

/// What append() does, on the way of decode attention: the warps of a team make the queries of its
/// KV head ready in shared memory. The warp that comes to the page of the new token puts its key
/// and value into its copy of the page, and at last into the page itself. All else that a block
/// reads, pages too, it asks for before the product of q, k and v has ended.
namespace nibble::ops::cuda::decode {

/// Query heads of one pass, in shared memory.
template <int D>
struct ReadyQueries {
  static constexpr int kStride = D + 8;  // rows begin in different banks
  alignas(16) std::uint16_t halves[kColumns][kStride];

  __device__ core::Fp16* head(int column) { return reinterpret_cast<core::Fp16*>(halves[column]); }
};

/// Brings `count` floats, at most four for each lane, into the cache, if there are any.
__device__ __forceinline__ void prefetch_floats(const float* values, int count, int lane) {
  if (values != nullptr && 4 * lane < count) {
    asm volatile("prefetch.global.L1 [%0];" ::"l"(values + 4 * lane));
  }
}

/// RoPE at the position of a team's row, in shared memory.
template <int D, typename Team>
struct Turns {
  float2 of_angle[D / 2];

  /// By the threads of the team, which then must meet.
  __device__ __forceinline__ void find(const AttentionLayer& layer, int position) {
    constexpr int kThreads = Team::kCount * kWarp;
    const int half = static_cast<int>(layer.rotary) / 2;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x) % kThreads; i < half; i += kThreads) {
      of_angle[i] = rope_turn(layer, static_cast<float>(position), i);
    }
  }
};

/// The token of an item's row, for one pass over a KV head.
template <KvType K, KvType V, int D, typename Team>
class NewToken {
  using S = Shape<K, V, D>;
  static constexpr int kLanes = Head<D, 4>::kLanes;
  static constexpr int kHeadsOfWarp = kWarp / kLanes;

 public:
  __device__ __forceinline__ NewToken(const Arguments& a, const DecodeItem& item, const Unit& unit,
                                      int lane)
      : a_(a),
        row_(item.row),
        slot_(item.slot),
        kv_head_(unit.kv_head),
        page_(item.pages - 1),
        stores_(unit.first_head == unit.kv_head * a.group),
        owns_(item.split + 1 == item.splits && Team::warp() == owner()),
        lane_(lane) {}

  /// Makes `columns` query heads ready, and the token's key and value in their warp.
  __device__ __forceinline__ void take(int first_head, int columns, const LaneTurns<D, 4>& turns,
                                       ReadyQueries<D>& queries) {
    constexpr int kAtOnce = Team::kCount * kHeadsOfWarp;
    constexpr int kEach = kColumns / kAtOnce;
    constexpr KvTypes kTypes = S::kLayout.types;
    const AttentionLayer& layer = a_.rows.layer;
    const float* x =
        a_.rows.qkv + static_cast<std::int64_t>(row_) * (a_.heads + 2 * a_.kv_heads) * D;
    const auto load = [&](int head) { return Head<D, 4>(x + head * D, lane_ % kLanes); };
    if (owns_) {
      key_ = load(a_.heads + kv_head_);
      value_ = load(a_.heads + a_.kv_heads + kv_head_);
    }
    // The warp with the key and the value comes last.
    const int first = (Team::warp() + 2 * Team::kCount - 1 - owner()) % Team::kCount * kHeadsOfWarp;
    const int of_lane = lane_ / kLanes;
    Head<D, 4> heads[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (first + i * kAtOnce < columns) {
        heads[i] = load(first_head + min(first + i * kAtOnce + of_lane, columns - 1));
      }
    }
    // Rolled up, since a kernel that runs for microseconds waits for its instructions too.
#pragma unroll 1
    for (int column = first; column < columns; column += kAtOnce) {
      heads[0].make_ready(layer, kTypes, HeadKind::kQuery, kv_head_, turns);
      if (column + of_lane < columns) {
        heads[0].store_query(queries.head(column + of_lane));
      }
#pragma unroll
      for (int i = 1; i < kEach; ++i) {
        heads[i - 1] = heads[i];
      }
    }
    if (owns_) {
      key_.make_ready(layer, kTypes, HeadKind::kKey, kv_head_, turns);
      value_.make_ready(layer, kTypes, HeadKind::kValue, kv_head_, turns);
    }
  }

  /// Into a copy of pages from number `first` of the item on, where the token's is among them.
  __device__ __forceinline__ void put(int first, std::byte* pages) const {
    if (owns_ && first + S::kPages > page_) {
      store(pages + (page_ - first) * S::kBlock);
      __syncwarp();
    }
  }

  /// Into the cache; one pass of several does. What put() wrote has been read, and may be copied
  /// over from now on.
  __device__ __forceinline__ void keep() const {
    if (!owns_) {
      return;
    }
#if __CUDA_ARCH__ >= 900
    fence_before_copies();
    __syncwarp();
#endif
    if (stores_) {
      const std::int64_t page = slot_ / static_cast<int>(kPageTokens);
      store(a_.rows.pages + (page * a_.kv_heads + kv_head_) * S::kBlock);
    }
  }

 private:
  // The warp that reads the item's last page.
  __device__ int owner() const {
    return page_ / S::kPages % Team::kCount;
  }

  __device__ __forceinline__ void store(std::byte* block) const {
    const bool there = lane_ < kLanes;  // further lanes have the same once more
    const int token = slot_ % static_cast<int>(kPageTokens);
    constexpr KvLayout kLayout = S::kLayout;
    key_.store(kLayout, HeadKind::kKey, token, block, there);
    value_.store(kLayout, HeadKind::kValue, token, block, there);
  }

  const Arguments& a_;
  int row_;
  int slot_;
  int kv_head_;
  int page_;  // of the item, the last one
  bool stores_;
  bool owns_;
  int lane_;
  Head<D, 4> key_;
  Head<D, 4> value_;
};

/// attend_kernel for rows whose queries, keys and values are not ready. Few teams have more than
/// one unit of work.
template <KvType K, KvType V, int D, typename Team, typename Heads>
__global__ void __launch_bounds__(kWarps* kWarp, 3)
    append_attend_kernel(const __grid_constant__ Arguments a) {
  using S = Shape<K, V, D>;
  extern __shared__ __align__(128) std::byte stages[];  // [kWarps, kStages, kPages, block]
  __shared__ Found<D, Heads::kMost> found[kWarps];
  __shared__ ReadyQueries<D> queries_of_teams[Team::kTeams];
  __shared__ Turns<D, Team> turns_of_teams[Team::kTeams];
  __shared__ std::uint64_t barriers[kWarps][S::kStages];
  if (a.at_once) {
    launch_dependents();
  }
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = Team::warp_of_block();
  ReadyQueries<D>& queries = queries_of_teams[Team::team_of_block()];
  Turns<D, Team>& turns = turns_of_teams[Team::team_of_block()];
  const AttentionLayer& layer = a.rows.layer;
  // All that can be asked for at once, before the first of it is waited for.
  const int first = Team::first_unit();
  PageWalk<S, Team> walk(a);
  Unit unit(first, a);
  DecodeItem item = load_item(unit.found(a));
  const int items = a.plan.counts[0];
  prefetch_floats(layer.inverse_frequency, static_cast<int>(layer.rotary) / 2, lane);
  prefetch_floats(layer.q_norm, D, lane);
  prefetch_floats(layer.k_norm, D, lane);
  if (layer.key_centre != nullptr) {
    prefetch_floats(layer.key_centre + unit.kv_head * D, D, lane);
  }
  WarpRing ring(stages + warp * S::kStages * S::kStage, barriers[warp], S::kStages, S::kStage);
  const int units = items * a.item_passes.value();
  walk.begin(units);
  for (int i = 0; i < S::kStages - 1; ++i) {
    walk.fill(ring);
  }
  if (first >= units) {
    wait_for_predecessor();  // whoever waits for this kernel waits for those before it
  }
  for (int number = first; number < units; number += Team::stride()) {
    if (number != first) {
      unit = Unit(number, a);
      item = load_item(unit.found(a));
    }
    turns.find(layer, item.position);
    Team::sync();
    const LaneTurns<D, 4> of_lane(lane % Head<D, 4>::kLanes, static_cast<int>(layer.rotary) / 2,
                                  [&](int i) { return turns.of_angle[i]; });
    NewToken<K, V, D, Team> token(a, item, unit, lane);
    if (number == first) {
      wait_for_predecessor();
    }
    token.take(unit.first_head, unit.columns, of_lane, queries);
    Team::sync();
    QueryWords<D> words;
    Heads::load(words, queries.head(0), unit.columns, ReadyQueries<D>::kStride, lane);
    const QueryTiles<K, D> q(words, a.scale, lane);
    const Running<D> running = run_steps<K, V, D, Team, Heads>(a, item, q, walk, ring, lane, token);
    Heads::template note<V>(running, unit.columns, lane, found[warp]);
    Team::sync();
    merge_warps<V, Team>(a, item, unit.first_head, unit.columns, found + warp - Team::warp());
    if (unit.first_head + unit.columns == a.heads && item.split == 0 && Team::warp() == 0) {
      a.sink.pad(item.row);
    }
    token.keep();
  }
  if (!a.at_once) {
    launch_dependents();
  }
}

}  // namespace nibble::ops::cuda::decode
