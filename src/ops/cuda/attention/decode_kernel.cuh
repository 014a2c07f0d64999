#pragma once

#include <algorithm>
#include <cstddef>

#include "ops/cuda/attention/decode_merge.cuh"
#include "ops/cuda/attention/decode_step.cuh"
#include "ops/cuda/attention/decode_team.cuh"
#include "ops/cuda/attention/kv_dispatch.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/warp_ring.cuh"

/// Decode attention on tensor cores, split over keys (Flash-Decoding). Keys are the 16-row operand
/// and up to 8 query heads of a KV head the 8 columns, so that 4-bit keys are read once for all of
/// them. Ranges never touch elements: with key = smallest + step * code
///   score = step (code . q) + smallest sum(q)
/// and a value's step goes into its weight, its smallest into one sum for all elements.
/// A team of warps (decode_team.cuh) takes one item and KV head after another; each of its warps
/// takes a step of pages in turn, and copies ahead of what it computes, into the next item where
/// this one ends.
namespace nibble::ops::cuda::decode {

/// Which item, KV head and query heads a unit of work is.
struct Unit {
  int item;
  int kv_head;
  int first_head;
  int columns;

  __device__ __forceinline__ Unit(int number, const Arguments& a)
      : item(a.item_passes.quotient(number)) {
    const int rest = number - item * a.item_passes.value();
    kv_head = a.passes.quotient(rest);
    const int first = (rest - kv_head * a.passes.value()) * kColumns;
    first_head = kv_head * a.group + first;
    columns = min(kColumns, a.group - first);
  }

  /// Where its item lies; for a unit that may be beyond the last one, some item.
  __device__ __forceinline__ const DecodeItem* found(const Arguments& a) const {
    return a.plan.decode + min(item, static_cast<int>(a.plan.max_items) - 1);
  }
};

/// All but the pages of an item, asked for at once.
__device__ __forceinline__ DecodeItem load_item(const DecodeItem* from) {
  static_assert(offsetof(DecodeItem, leading) == 11 * sizeof(std::int32_t));
  const auto* words = reinterpret_cast<const int4*>(from);
  const int4 x = words[0];
  const int4 y = words[1];
  const int4 z = words[2];
  return {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w, z.x, z.y, z.z, {}};
}

/// The pages that one warp needs, in the order in which it needs them. A unit's item is asked for
/// before it is known whether there is such a unit, and with it come the pages of its first step.
template <typename S, typename Team>
class PageWalk {
  static_assert(Team::kCount * S::kPages <= static_cast<int>(kLeadingPages));

 public:
  __device__ explicit PageWalk(const Arguments& a) : a_(a), unit_(Team::first_unit()) {
    const DecodeItem* item = peek(unit_);
    go_to(item);
  }

  /// Goes to the warp's first pages, once the number of units is known.
  __device__ __forceinline__ void begin(int units) {
    units_ = units;
    peek(unit_ + Team::stride());
    leave_empty();
  }

  /// Copies one step's pages into the ring, if there is one.
  __device__ __forceinline__ void fill(WarpRing& ring) {
    if (unit_ >= units_) {
      ring.skip();
      return;
    }
    const std::byte* block =
        a_.pages + (static_cast<std::int64_t>(id_) * a_.kv_heads + kv_head_) * S::kBlock;
    ring.fill_parts(block, min(S::kPages, pages_ - first_), S::kCopied, S::kBlock);
    first_ += Team::kCount * S::kPages;
    if (first_ < pages_) {
      id_ = a_.plan.table[table_ + min(first_ + part(), pages_ - 1)];
    } else {
      leave_empty();
    }
  }

 private:
  // What a later unit reads is asked for long before it is needed.
  __device__ __forceinline__ const DecodeItem* peek(int number) {
    const DecodeItem* item = Unit(number, a_).found(a_);
    next_table_ = item->table;
    next_pages_ = item->pages;
    return item;
  }

  __device__ __forceinline__ void go_to(const DecodeItem* item) {
    table_ = next_table_;
    pages_ = next_pages_;
    kv_head_ = Unit(unit_, a_).kv_head;
    first_ = Team::warp() * S::kPages;
    id_ = item->leading[first_ + part()];
  }

  // The page of a step that this lane copies.
  __device__ static int part() { return min(static_cast<int>(threadIdx.x) % kWarp, S::kPages - 1); }

  // Goes on from units of whose pages this warp has none, or none any more.
  __device__ __forceinline__ void leave_empty() {
#pragma unroll 1
    while (unit_ < units_ && first_ >= pages_) {
      unit_ += Team::stride();
      go_to(Unit(unit_, a_).found(a_));
      peek(unit_ + Team::stride());
    }
  }

  const Arguments& a_;
  int units_ = 0;
  int unit_;
  int table_ = 0;
  int pages_ = 0;
  int kv_head_ = 0;
  int first_ = 0;
  int next_table_ = 0;
  int next_pages_ = 0;
  std::int32_t id_;
};

/// An item, one word in each of the first lanes, so that later ones can be on their way.
struct ItemWord {
  std::int32_t word = 0;

  __device__ __forceinline__ void load(const DecodeItem* item, int lane) {
    constexpr int kWords = offsetof(DecodeItem, leading) / sizeof(std::int32_t);
    word = lane < kWords ? reinterpret_cast<const std::int32_t*>(item)[lane] : 0;
  }
  __device__ __forceinline__ int row() const { return __shfl_sync(kAllLanes, word, 0); }
  __device__ __forceinline__ DecodeItem item() const {
    const auto at = [&](int i) { return __shfl_sync(kAllLanes, word, i); };
    return {at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8), at(9), at(10), {}};
  }
};

/// In the place of NewToken (decode_append.cuh) where pages have all that is read.
struct StoredToken {
  __device__ void put(int, std::byte*) const {}
};

template <KvType K, KvType V, int D, typename Team, typename Heads, typename Token>
__device__ __forceinline__ Running<D> run_steps(const Arguments& a, const DecodeItem& item,
                                                const QueryTiles<K, D>& q,
                                                PageWalk<Shape<K, V, D>, Team>& walk,
                                                WarpRing& ring, int lane, const Token& newest) {
  using S = Shape<K, V, D>;
  Running<D> running = Running<D>::none();
  for (int first = Team::warp() * S::kPages; first < item.pages;
       first += Team::kCount * S::kPages) {
    walk.fill(ring);
    std::byte* const pages = ring.wait();
    newest.put(first, pages);
    const typename Heads::template Step<K, V, D> step(pages, lane);
    const int token = item.first + first * 16;
    if (token >= item.begin && token + S::kPages * 16 <= item.end) {
      step.template run<false>(q, a, item, first, lane, running);
    } else {
      step.template run<true>(q, a, item, first, lane, running);
    }
    ring.release();
  }
  return running;
}

template <KvType K, KvType V, int D, typename Team, typename Heads>
__global__ void __launch_bounds__(kWarps* kWarp, 3) attend_kernel(Arguments a) {
  using S = Shape<K, V, D>;
  extern __shared__ __align__(128) std::byte stages[];  // [kWarps, kStages, kPages, block]
  __shared__ Found<D, Heads::kMost> found[kWarps];
  __shared__ std::uint64_t barriers[kWarps][S::kStages];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = Team::warp_of_block();
  WarpRing ring(stages + warp * S::kStages * S::kStage, barriers[warp], S::kStages, S::kStage);
  if (a.at_once) {
    launch_dependents();
  }
  wait_for_predecessor();
  PageWalk<S, Team> walk(a);
  const int units = a.plan.counts[0] * a.item_passes.value();
  const int stride = Team::stride();
  walk.begin(units);
  for (int i = 0; i < S::kStages - 1; ++i) {
    walk.fill(ring);
  }
  // The item after this one has arrived, the one after that is on its way; so are the next queries.
  ItemWord here;
  ItemWord next;
  QueryWords<D> words;
  const auto load_item = [&](ItemWord& word, int number) {
    if (number < units) {
      word.load(a.plan.decode + Unit(number, a).item, lane);
    }
  };
  const auto load_queries = [&](const ItemWord& word, int number) {
    if (number < units) {
      const Unit unit(number, a);
      Heads::load(
          words,
          a.queries + (static_cast<std::int64_t>(word.row()) * a.heads + unit.first_head) * D,
          unit.columns, D, lane);
    }
  };
  int number = Team::first_unit();
  load_item(here, number);
  load_item(next, number + stride);
  load_queries(here, number);
  for (; number < units; number += stride) {
    const Unit unit(number, a);
    const DecodeItem item = here.item();
    const QueryTiles<K, D> q(words, a.scale, lane);
    here = next;
    load_item(next, number + 2 * stride);
    load_queries(here, number + stride);
    const Running<D> running =
        run_steps<K, V, D, Team, Heads>(a, item, q, walk, ring, lane, StoredToken{});
    Team::sync();  // all warps have merged what was found before
    Heads::template note<V>(running, unit.columns, lane, found[warp]);
    Team::sync();
    merge_warps<V, Team>(a, item, unit.first_head, unit.columns, found + warp - Team::warp());
    if (unit.first_head + unit.columns == a.heads && item.split == 0 && Team::warp() == 0) {
      a.sink.pad(item.row);
    }
  }
  if (!a.at_once) {  // only now: what waits for this kernel's end would take room from it
    launch_dependents();
  }
}

/// `teams`: of a block.
template <int D, typename Kernel>
void run(Kernel* kernel, int teams, int resident, int shared_bytes, Arguments arguments,
         std::int64_t max_units, cudaStream_t stream) {
  const auto grid = std::clamp<std::int64_t>((max_units + teams - 1) / teams, 1, resident);
  arguments.at_once = max_units <= grid * teams;
  launch_dependent(kernel, dim3(static_cast<unsigned>(grid)), dim3(kWarps * kWarp),
                   static_cast<std::size_t>(shared_bytes), stream, arguments);
  if (arguments.plan.max_partials > 0) {
    constexpr std::int64_t kBlocksEach = 16;  // of a multiprocessor
    const std::int64_t parts =
        std::min((arguments.plan.max_items * arguments.heads + kWarps - 1) / kWarps,
                 kBlocksEach * multiprocessors());
    launch_dependent(merge_kernel<D>, dim3(static_cast<unsigned>(parts)), dim3(kWarps * kWarp), 0,
                     stream, arguments);
  }
}

}  // namespace nibble::ops::cuda::decode
