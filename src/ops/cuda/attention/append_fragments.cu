#include <algorithm>

#include "ops/cuda/attention/append_fragments.h"
#include "ops/cuda/attention/checks.h"
#include "ops/cuda/attention/head_vector.cuh"
#include "ops/cuda/attention/kv_dispatch.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"

/// A block has some heads of one row, and the row's sines in shared memory. All but the heads is
/// known, and done, before the product of q, k and v has ended.
namespace nibble::ops::cuda {
namespace {

constexpr int kWarps = 8;
/// Elements of a lane. With many a head takes fewer instructions, but a warp needs more heads, and
/// codes of 8 bits and floats are stored in smaller runs, which costs more than is gained.
constexpr int kWide = 16;
constexpr int kNarrow = 4;
template <KvType K, KvType V>
constexpr bool kMayBeWide = (K == KvType::kInt4) && (V == KvType::kInt4);

template <int D, int E>
constexpr int kHeadsOfWarp = kWarp / Head<D, E>::kLanes;
template <int D, int E>
constexpr int kHeadsOfBlock = kHeadsOfWarp<D, E>* kWarps;

template <KvType K, KvType V, int D, int E>
__global__ void __launch_bounds__(kWarps* kWarp, E == kNarrow ? 6 : 4)
    append_kernel(AttentionLayer layer, const float* qkv, const std::int32_t* positions,
                  const std::int32_t* slots, core::Fp16* queries, std::byte* pages) {
  __shared__ float2 turns[D / 2];
  constexpr KvTypes kTypes{K, V};
  constexpr KvLayout kLayout{kTypes, 1, D};
  constexpr int kLanes = Head<D, E>::kLanes;
  launch_dependents();
  const std::int64_t row = blockIdx.x;
  const int half = static_cast<int>(layer.rotary) / 2;
  if (static_cast<int>(threadIdx.x) < half) {
    turns[threadIdx.x] =
        rope_turn(layer, static_cast<float>(positions[row]), static_cast<int>(threadIdx.x));
  }
  const std::int32_t slot = slots[row];
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x % kLanes);  // of the head's
  const LaneTurns<D, E> of_lane(lane, half, [&](int i) { return turns[i]; });
  const int heads = static_cast<int>(layer.heads);
  const int kv_heads = static_cast<int>(layer.layout.kv_heads);
  const int keys_end = heads + kv_heads;
  const int all = keys_end + kv_heads;
  const auto at = static_cast<unsigned>(max(slot, 0));
  const auto token = static_cast<int>(at % kPageTokens);
  std::byte* const page = pages + at / kPageTokens * kv_heads * kLayout.block_bytes();
  const int end = slot < 0 ? heads : all;  // without keys and values, or with them
  const int first = static_cast<int>(blockIdx.y * kHeadsOfBlock<D, E> + threadIdx.x / kLanes);
  const int step = static_cast<int>(gridDim.y) * kHeadsOfBlock<D, E>;
  const float* from = qkv + (row * all + first) * D;
  core::Fp16* const queries_of_row = queries + row * heads * D;
  wait_for_predecessor();
  for (int head = first; head < end; head += step, from += step * D) {
    Head<D, E> x(from, lane);
    const HeadKind kind = head < heads      ? HeadKind::kQuery
                          : head < keys_end ? HeadKind::kKey
                                            : HeadKind::kValue;
    const int kv_head = head - (kind == HeadKind::kKey ? heads : keys_end);
    x.make_ready(layer, kTypes, kind, kv_head, of_lane);
    if (kind == HeadKind::kQuery) {
      x.store_query(queries_of_row + static_cast<unsigned>(head * D));
    } else {
      constexpr auto kBlock = static_cast<unsigned>(kLayout.block_bytes());
      x.store(kLayout, kind, token, page + static_cast<unsigned>(kv_head) * kBlock, true);
    }
  }
}

/// Whether a warp's heads are of one kind, as they shuffle together, and RoPE is as lanes tell it.
template <int D, int E>
bool serves(const AttentionLayer& layer) {
  return LaneTurns<D, E>::serves(layer.rotary) && layer.heads % kHeadsOfWarp<D, E> == 0 &&
         layer.layout.kv_heads % kHeadsOfWarp<D, E> == 0;
}

template <KvType K, KvType V, int D, int E>
void run(const AttentionLayer& layer, const float* qkv, const DevicePlan& plan, std::int64_t m,
         const Queries& queries, std::byte* pages, cudaStream_t stream) {
  constexpr std::int64_t kFewBlocks = E == kNarrow ? 1056 : 768;  // of a large device
  const std::int64_t heads = layer.heads + 2 * layer.layout.kv_heads;
  const std::int64_t most = (heads + kHeadsOfBlock<D, E> - 1) / kHeadsOfBlock<D, E>;
  const std::int64_t parts = std::clamp<std::int64_t>(kFewBlocks / m, 1, most);
  launch_dependent(append_kernel<K, V, D, E>,
                   dim3(static_cast<unsigned>(m), static_cast<unsigned>(parts)),
                   dim3(kWarps * kWarp), 0, stream, layer, qkv, plan.positions, plan.slots,
                   queries.halves, pages);
}

}  // namespace

bool append_fragments(const AttentionLayer& layer, const float* qkv, const DevicePlan& plan,
                      std::int64_t m, const Queries& queries, std::byte* pages,
                      cudaStream_t stream) {
  if (!layer.layout.fragments() || !can_read_heads(layer, qkv)) {
    return false;
  }
  bool served = true;
  with_fragments(layer.layout, [&]<KvType K, KvType V, int D>() {
    if constexpr (kMayBeWide<K, V>) {
      if (serves<D, kWide>(layer)) {
        return run<K, V, D, kWide>(layer, qkv, plan, m, queries, pages, stream);
      }
    }
    served = serves<D, kNarrow>(layer);
    if (served) {
      run<K, V, D, kNarrow>(layer, qkv, plan, m, queries, pages, stream);
    }
  });
  return served;
}

}  // namespace nibble::ops::cuda
