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

/// The token of an item's row, for one pass over a KV head.
template <KvType K, KvType V, int D, typename Team>
class NewToken {
  using S = Shape<K, V, D>;
  static constexpr int kLanes = Head<D>::kLanes;
  static constexpr int kHeadsOfWarp = kWarp / kLanes;

 public:
  /// Reads what the predecessor does not write.
  __device__ __forceinline__ NewToken(const Arguments& a, const DecodeItem& item, int first_head,
                                      int group, int lane)
      : a_(a),
        row_(item.row),
        slot_(item.slot),
        kv_head_(first_head / group),
        page_(item.pages - 1),
        stores_(first_head % group == 0),
        owns_(item.split + 1 == item.splits && Team::warp() == owner()),
        lane_(lane),
        turns_(lane % kLanes, static_cast<int>(a.rows.layer.rotary) / 2,
               [&, position = static_cast<float>(item.position)](int i) {
                 return rope_turn(a.rows.layer, position, i);
               }) {
    const AttentionLayer& layer = a.rows.layer;
    prefetch(layer.q_norm, 0);
    prefetch(layer.k_norm, 0);
    prefetch(layer.key_centre, kv_head_ * D);
  }

  /// Makes `columns` query heads ready, and the token's key and value in their warp.
  __device__ __forceinline__ void take(int first_head, int columns, ReadyQueries<D>& queries) {
    constexpr int kAtOnce = Team::kCount * kHeadsOfWarp;
    constexpr int kEach = kColumns / kAtOnce;
    const AttentionLayer& layer = a_.rows.layer;
    const float* x =
        a_.rows.qkv + static_cast<std::int64_t>(row_) * (a_.heads + 2 * a_.kv_heads) * D;
    const auto load = [&](int head) { return Head<D>(x + head * D, lane_ % kLanes); };
    if (owns_) {
      key_ = load(a_.heads + kv_head_);
      value_ = load(a_.heads + a_.kv_heads + kv_head_);
    }
    // The warp with the key and the value comes last.
    const int first = (Team::warp() + 2 * Team::kCount - 1 - owner()) % Team::kCount * kHeadsOfWarp;
    const auto column_of = [&](int i) { return first + i * kAtOnce + lane_ / kLanes; };
    Head<D> heads[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (first + i * kAtOnce < columns) {
        heads[i] = load(first_head + min(column_of(i), columns - 1));
      }
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (first + i * kAtOnce < columns) {
        heads[i].make_ready(layer, HeadKind::kQuery, kv_head_, turns_);
        if (column_of(i) < columns) {
          heads[i].store_query(queries.head(column_of(i)));
        }
      }
    }
    if (owns_) {
      key_.make_ready(layer, HeadKind::kKey, kv_head_, turns_);
      value_.make_ready(layer, HeadKind::kValue, kv_head_, turns_);
    }
  }

  /// Into a copy of pages from number `first` of the item on, where the token's is among them.
  __device__ __forceinline__ void put(int first, std::byte* pages) const {
    if (owns_ && first + S::kPages > page_) {
      store(pages + (page_ - first) * S::kBlock);
#if __CUDA_ARCH__ >= 900
      fence_before_copies();
#endif
      __syncwarp();
    }
  }

  /// Into the cache; one pass of several does.
  __device__ __forceinline__ void keep() const {
    if (owns_ && stores_) {
      const std::int64_t page = slot_ / static_cast<int>(kPageTokens);
      store(a_.rows.pages + (page * a_.kv_heads + kv_head_) * S::kBlock);
    }
  }

 private:
  // What the lane's elements meet, where there is something.
  __device__ __forceinline__ void prefetch(const float* values, int head) const {
    if (values != nullptr) {
      asm volatile("prefetch.global.L1 [%0];" ::"l"(values + head + lane_ % kLanes * 4));
    }
  }
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
  LaneTurns turns_;
  Head<D> key_;
  Head<D> value_;
};

/// attend_kernel for rows whose queries, keys and values are not ready. Few teams have more than
/// one unit of work.
template <KvType K, KvType V, int D, typename Team>
__global__ void __launch_bounds__(kWarps* kWarp, 3)
    append_attend_kernel(const __grid_constant__ Arguments a) {
  using S = Shape<K, V, D>;
  extern __shared__ __align__(128) std::byte stages[];  // [kWarps, kStages, kPages, block]
  __shared__ Found<D> found[kWarps];
  __shared__ ReadyQueries<D> queries_of_teams[Team::kTeams];
  __shared__ std::uint64_t barriers[kWarps][S::kStages];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = Team::warp_of_block();
  ReadyQueries<D>& queries = queries_of_teams[Team::team_of_block()];
  WarpRing ring(stages + warp * S::kStages * S::kStage, barriers[warp], S::kStages, S::kStage);
  if (a.few) {
    launch_dependents();
  }
  const int group = a.heads / a.kv_heads;
  const int passes = (group + kColumns - 1) / kColumns;
  const int units = a.plan.counts[0] * a.kv_heads * passes;
  const int first = Team::first_unit();
  PageWalk<S, Team> walk(a, units, passes);
  for (int i = 0; i < S::kStages - 1; ++i) {
    walk.fill(ring);
  }
  if (first >= units) {
    wait_for_predecessor();  // whoever waits for this kernel waits for those before it
  }
  for (int number = first; number < units; number += Team::stride()) {
    const Unit unit(number, a, group, passes);
    const DecodeItem item = a.plan.decode[unit.item];
    NewToken<K, V, D, Team> token(a, item, unit.first_head, group, lane);
    if (number == first) {
      wait_for_predecessor();
    }
    token.take(unit.first_head, unit.columns, queries);
    Team::sync();
    QueryWords<D> words;
    words.load(queries.head(0), unit.columns, ReadyQueries<D>::kStride, lane);
    const QueryTiles<K, D> q(words, a.scale, lane);
    const Running<D> running = run_steps<K, V, D, Team>(a, item, q, walk, ring, lane, token);
    note<V, D>(running, lane, found[warp]);
    Team::sync();
    merge_warps<D, Team>(a, item, unit.first_head, unit.columns, found + warp - Team::warp());
    if (unit.first_head + unit.columns == a.heads && item.split == 0 && Team::warp() == 0) {
      a.sink.pad(item.row);
    }
    token.keep();
  }
  if (!a.few) {
    launch_dependents();
  }
}

}  // namespace nibble::ops::cuda::decode
