#include <algorithm>

#include "ops/cuda/attention/append_fragments.h"
#include "ops/cuda/attention/head_vector.cuh"
#include "ops/cuda/attention/kv_dispatch.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"

/// A block has some heads of one row, and the row's sines in shared memory.
namespace nibble::ops::cuda {
namespace {

constexpr int kWarps = 8;

template <KvType K, KvType V, int D>
__global__ void __launch_bounds__(kWarps* kWarp)
    append_kernel(AttentionLayer layer, const float* qkv, const std::int32_t* positions,
                  const std::int32_t* slots, core::Fp16* queries, std::byte* pages) {
  __shared__ float2 turns[D / 2];
  constexpr KvTypes kTypes{K, V};
  constexpr KvLayout kLayout{kTypes, 1, D};
  constexpr int kLanes = Head<D>::kLanes;
  constexpr int kHeadsOfWarp = kWarp / kLanes;
  launch_dependents();
  wait_for_predecessor();
  const std::int64_t row = blockIdx.x;
  const int half = static_cast<int>(layer.rotary) / 2;
  if (static_cast<int>(threadIdx.x) < half) {
    turns[threadIdx.x] =
        rope_turn(layer, static_cast<float>(positions[row]), static_cast<int>(threadIdx.x));
  }
  __syncthreads();
  const int heads = static_cast<int>(layer.heads);
  const int kv_heads = static_cast<int>(layer.layout.kv_heads);
  const int all = heads + 2 * kv_heads;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const LaneTurns of_lane(lane % kLanes, half, [&](int i) { return turns[i]; });
  const std::int32_t slot = slots[row];
  const int token = slot % static_cast<int>(kPageTokens);
  std::byte* const page = pages + max(slot, 0) / kPageTokens * kv_heads * kLayout.block_bytes();
  const int step = static_cast<int>(gridDim.y) * kWarps * kHeadsOfWarp;
  for (int first = (static_cast<int>(blockIdx.y) * kWarps + warp) * kHeadsOfWarp; first < all;
       first += step) {
    const int wanted = first + lane / kLanes;
    const bool there = wanted < all;
    const int head = there ? wanted : all - 1;
    Head<D> x(qkv + (row * all + head) * D, lane % kLanes);
    if (head < heads) {
      x.make_ready(layer, kTypes, HeadKind::kQuery, 0, of_lane);
      if (there) {
        x.store_query(queries + (row * heads + head) * D);
      }
      continue;
    }
    const auto keep = [&](HeadKind kind, int kv_head) {
      x.make_ready(layer, kTypes, kind, kv_head, of_lane);
      x.store(kLayout, kind, token, page + kv_head * kLayout.block_bytes(), there && slot >= 0);
    };
    if (head < heads + kv_heads) {
      keep(HeadKind::kKey, head - heads);
    } else {
      keep(HeadKind::kValue, head - heads - kv_heads);
    }
  }
}

template <KvType K, KvType V, int D>
void run(const AttentionLayer& layer, const float* qkv, const DevicePlan& plan, std::int64_t m,
         const Queries& queries, std::byte* pages, cudaStream_t stream) {
  // Heads that are turned take longer: more blocks, with fewer of them each.
  constexpr bool kMayTurn = K == KvType::kInt4 || V == KvType::kInt4;
  constexpr std::int64_t kFewBlocks = kMayTurn ? 1056 : 528;
  constexpr std::int64_t kHeadsOfBlock = kWarps * kWarp / Head<D>::kLanes;
  const std::int64_t heads = layer.heads + 2 * layer.layout.kv_heads;
  const std::int64_t most = (heads + kHeadsOfBlock - 1) / kHeadsOfBlock;
  const std::int64_t parts = std::clamp<std::int64_t>(kFewBlocks / m, 1, most);
  launch_dependent(append_kernel<K, V, D>,
                   dim3(static_cast<unsigned>(m), static_cast<unsigned>(parts)),
                   dim3(kWarps * kWarp), 0, stream, layer, qkv, plan.positions, plan.slots,
                   queries.halves, pages);
}

}  // namespace

bool append_fragments(const AttentionLayer& layer, const float* qkv, const DevicePlan& plan,
                      std::int64_t m, const Queries& queries, std::byte* pages,
                      cudaStream_t stream) {
  // Heads of one warp must be of one kind, since they shuffle together.
  const std::int64_t heads_of_warp = 128 / layer.layout.head_dim;
  const bool one_kind = heads_of_warp > 0 && layer.heads % heads_of_warp == 0 &&
                        layer.layout.kv_heads % heads_of_warp == 0;
  if (!layer.layout.fragments() || layer.rotary % 8 != 0 || !one_kind ||
      reinterpret_cast<std::uintptr_t>(qkv) % sizeof(float4) != 0) {
    return false;
  }
  with_fragments(layer.layout, [&]<KvType K, KvType V, int D>() {
    run<K, V, D>(layer, qkv, plan, m, queries, pages, stream);
  });
  return true;
}

}  // namespace nibble::ops::cuda
