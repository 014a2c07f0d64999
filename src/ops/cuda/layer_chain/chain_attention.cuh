#pragma once

#include <cstdint>

#include "ops/cuda/attention/decode_merge.cuh"
#include "ops/cuda/attention/decode_step.cuh"
#include "ops/cuda/attention/head_vector.cuh"
#include "ops/cuda/layer_chain/chain_inputs.cuh"

/// An attention of the chain. Each head has a thread block, or several where there are many pages:
/// parts, which what reads them merges. Warps take pages in turns, and make the head's query ready
/// each on its own. One warp attends to the new token, whose key and value come last, and puts them
/// into their page.
///
/// What is done once for each layer waits for its instructions: there should be few of them, so
/// loops are rolled up. All functions are inlined: a call anywhere in the kernel makes the compiler
/// take warps for divergent in every loop.
namespace nibble::ops::cuda {

/// Attentions of a chain: their keys, values and heads are of one kind, or there are none.
template <KvType T, int D>
struct HeadsOf {
  static constexpr bool kAny = true;
  static constexpr KvType kType = T;
  static constexpr int kSize = D;
};
struct NoHeads {
  static constexpr bool kAny = false;
};

#if __CUDA_ARCH__ >= 900

/// Of the warps that multiply.
__device__ __forceinline__ void sync_chain_warps() {
  asm volatile("bar.sync 1, %0;" ::"n"(kChainWarps * kWarp) : "memory");
}

/// Where an attention is in its chain.
struct AttentionPlace {
  int phase;
  int side;  // of sums, in whose place lies what warps find
  std::uint32_t run_before;
  std::uint32_t run;
};

/// Attends to a page with the one query that stands in every column of `q`: adds what tokens at
/// positions [begin, end) have. Lane 4g + t has scores of tokens g and g + 8.
template <KvType T, int D>
__device__ __forceinline__ void attend_to_page(const decode::QueryTiles<T, D>& q, float scale,
                                               const std::byte* keys, const std::byte* values,
                                               int position, int begin, int end,
                                               decode::Running<D>& running) {
  using S = decode::Shape<T, T, D>;
  constexpr bool kIntegers = is_integer(T);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  uint4 ranges{};  // keys, keys, values, values
  if (kIntegers) {
    ranges =
        *reinterpret_cast<const uint4*>(values + (S::kRangesAt - S::kValuesAt) + lane / 4 * 16);
  }
  const auto is_seen = [&](int token) {
    return position + token >= begin && position + token < end;
  };
  const bool seen[2] = {is_seen(lane / 4), is_seen(lane / 4 + 8)};
  float sums[2][4] = {};
  decode::multiply_keys(q, keys, lane, sums);
  float scores[2];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const float sum = sums[0][2 * row] + sums[1][2 * row];
    const float2 range = float2_of(row == 0 ? ranges.x : ranges.y);
    const float score = kIntegers
                            ? fmaf(sum, range.x * (scale * kProductUnit<T>), range.y * q.sums[0])
                            : sum * scale;
    scores[row] = seen[row] ? score : -INFINITY;
  }
  // Online softmax (arXiv 1805.02867): what is known becomes relative to the largest score and the
  // largest step of values, NaN where one is.
  const float before = running.largest[0];
  const float largest = decode::rows_max(fmaxf(before, fmaxf(scores[0], scores[1])));
  float change = relative_power(before, largest);
  running.largest[0] = largest;
  running.sum[0] *= change;
  running.offset[0] *= change;
  if (kIntegers) {
    const std::uint32_t steps = masked(__byte_perm(ranges.z, ranges.w, 0x5410), seen[0], seen[1]);
    const float reach = decode::largest_half<4>(*reinterpret_cast<const __half2*>(&steps));
    if (!(reach <= running.reach)) {
      change *= running.widen_to(reach);
    }
  }
  if (before != -INFINITY) {
#pragma unroll
    for (auto& tile : running.out) {
      tile[0] *= change;
      tile[2] *= change;
    }
  }
  float weights[2];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const float weight = relative_power(scores[row], largest);
    running.sum[0] += weight;
    weights[row] = weight;
    if (kIntegers) {
      const float2 range = float2_of(row == 0 ? ranges.z : ranges.w);
      running.offset[0] += seen[row] ? weight * range.y : 0.0f;
      weights[row] = seen[row] ? weight * (range.x * running.unit) : 0.0f;
    }
  }
  // Column operand: of tokens 2t and 2t + 1, and of those 8 further on.
  const __half2 pair = __floats2half2_rn(weights[0], weights[1]);
  const std::uint32_t word = *reinterpret_cast<const std::uint32_t*>(&pair);
  const std::uint32_t even = __shfl_sync(kAllLanes, word, 8 * (lane % 4));
  const std::uint32_t odd = __shfl_sync(kAllLanes, word, 8 * (lane % 4) + 4);
  // Unseen floats may be NaN, which a weight of 0 does not hide.
  const int token = 2 * (lane % 4);
  const std::uint32_t low = masked(~0u, is_seen(token), is_seen(token + 1));
  const std::uint32_t high = masked(~0u, is_seen(token + 8), is_seen(token + 9));
  decode::multiply_values<T>(values, lane, __byte_perm(even, odd, 0x5410),
                             __byte_perm(even, odd, 0x7632), running, [&](Tile& value) {
                               if (!kIntegers) {
                                 value.r[0] &= low;
                                 value.r[1] &= low;
                                 value.r[2] &= high;
                                 value.r[3] &= high;
                               }
                             });
}

/// What all warps found, merged; lane l has elements 4l .. 4l + 3. `with_newest`: also what the new
/// token adds.
template <int D>
__device__ __forceinline__ decode::Part merged_warps(const decode::Found<D, 1>* found,
                                                     bool with_newest) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  decode::Part part;
  part.largest = with_newest ? found[kChainWarps].largest[0] : -INFINITY;
#pragma unroll
  for (int from = 0; from < kChainWarps; ++from) {
    part.largest = fmaxf(part.largest, found[from].largest[0]);
  }
#pragma unroll
  for (int from = 0; from <= kChainWarps; ++from) {
    const bool is_one = from < kChainWarps || with_newest;
    const float largest = is_one ? found[from].largest[0] : -INFINITY;
    const float* const out = found[from].out[0] + min(4 * lane, D - 4);
    // A warp without pages has left nothing.
    const bool is_any = largest != -INFINITY;
    part.add(relative_power(largest, part.largest),
             is_any ? *reinterpret_cast<const float4*>(out) : float4{},
             is_any ? found[from].sum[0] : 0.0f);
  }
  return part;
}

/// By a block whose share attends. Returns where the ring is after the pages.
template <KvType T, int D>
__device__ __forceinline__ RingPlace attend_with_head(ChainMemory memory, std::byte* shared,
                                                      int warp, AttentionPlace at,
                                                      RingPlace place) {
  using S = decode::Shape<T, T, D>;
  using OfHead = Head<D, 4>;
  constexpr KvTypes kTypes = KvTypes(T);
  constexpr bool kTwoPieces = S::kBlock > kPagePieceBytes;
  const auto& a = *reinterpret_cast<const ChainArguments*>(shared + memory.arguments());
  const auto& tokens = *reinterpret_cast<const ChainTokens*>(shared + memory.tokens());
  const auto* const angles = reinterpret_cast<const float2*>(shared + memory.turns());
  std::byte* const scratch = shared + memory.sums_of(at.side);
  auto* const found = reinterpret_cast<decode::Found<D, 1>*>(scratch);
  static_assert(sizeof(*found) <= ChainMemory::kFoundBytes);
  const ChainPhase& phase = a.phases[at.phase];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int of_head = lane % OfHead::kLanes;  // further lanes have the same once more
  const HeadShare share(a.attention, tokens, static_cast<int>(blockIdx.x));
  const int kv_head = share.head / a.attention.group;
  const int kv_heads = static_cast<int>(a.attention.layer.layout.kv_heads);
  const bool with_newest = share.newest_part(tokens.pages) == share.part;
  const bool takes_newest = with_newest && HeadShare::newest_warp(tokens.pages) == warp;
  PieceRing ring(memory, shared, warp, place);
  AttentionLayer layer = a.attention.layer;
  layer.q_norm = phase.q_norm;
  layer.k_norm = phase.k_norm;
  layer.key_centre = phase.key_centre;
  const LaneTurns<D, 4> turns(of_head, static_cast<int>(layer.rotary) / 2,
                              [&](int i) { return angles[i]; });
  auto* const query = reinterpret_cast<core::Fp16*>(scratch + ChainMemory::kQueriesAt +
                                                    warp * ChainMemory::kQueryBytes);
  const auto* const row = reinterpret_cast<const float4*>(phase.row) + of_head;
  const auto* const query_at = row + share.head * OfHead::kLanes;
  const auto* const key_at = row + (a.attention.heads + kv_head) * OfHead::kLanes;
  const auto* const value_at = key_at + kv_heads * OfHead::kLanes;
  float4 query_read = read_sent(query_at);
  await_sent([&] { query_read = read_sent(query_at); },
             [&] { return is_of_run(query_read, at.run_before); });
  OfHead of_query(without_run(query_read), of_head);
  of_query.make_ready(layer, kTypes, HeadKind::kQuery, kv_head, turns);
  if (lane < OfHead::kLanes) {
    of_query.store_query(query);
  }
  __syncwarp();
  float4 key_read{};
  float4 value_read{};
  if (takes_newest) {
    key_read = read_sent(key_at);
    value_read = read_sent(value_at);
  }
  if (of_warp(share.first_page(warp) < tokens.pages)) {
    decode::QueryWords<D> words;
    words.load(query, decode::kColumns, 0, lane);
    const decode::QueryTiles<T, D> q(words, a.attention.scale, lane);
    auto running = decode::Running<D>::none();
#pragma unroll 1
    for (int page = share.first_page(warp); page < tokens.pages; page += share.page_stride()) {
      const std::byte* const keys = ring.wait();
      const std::byte* const values = kTwoPieces ? ring.wait_second() : keys + S::kValuesAt;
      attend_to_page<T, D>(q, a.attention.scale, keys, values,
                           tokens.first + page * static_cast<int>(kPageTokens), tokens.begin,
                           tokens.position, running);
      ring.release();
      if (kTwoPieces) {
        ring.release();
      }
    }
    decode::note_first_head<T>(running, lane, found[warp]);
  } else if (lane == 0) {
    found[warp].largest[0] = -INFINITY;
  }

  OfHead key;
  OfHead value;
  if (takes_newest) {
    await_sent(
        [&] {
          key_read = read_sent(key_at);
          value_read = read_sent(value_at);
        },
        [&] { return is_of_run(key_read, value_read, at.run_before); });
    key = OfHead(without_run(key_read), of_head);
    value = OfHead(without_run(value_read), of_head);
    key.make_ready(layer, kTypes, HeadKind::kKey, kv_head, turns);
    value.make_ready(layer, kTypes, HeadKind::kValue, kv_head, turns);
    const float4 k = key.as_stored(T).elements();
    const auto halves = reinterpret_cast<const uint2*>(query)[of_head];
    const float2 first = float2_of(halves.x);
    const float2 second = float2_of(halves.y);
    float score = fmaf(first.x, k.x, first.y * k.y) + fmaf(second.x, k.z, second.y * k.w);
#pragma unroll
    for (int distance = 1; distance < OfHead::kLanes; distance *= 2) {
      score += __shfl_xor_sync(kAllLanes, score, distance);
    }
    auto& newest = found[kChainWarps];
    reinterpret_cast<float4*>(newest.out[0])[of_head] = value.as_stored(T).elements();
    if (lane == 0) {
      newest.largest[0] = score * a.attention.scale;
      newest.sum[0] = 1.0f;
    }
  }
  sync_chain_warps();
  if (warp == 0) {
    const decode::Part part = merged_warps<D>(found, with_newest);
    const float unit = share.parts == 1 ? __fdividef(1.0f, part.sum) : 1.0f;
    float out[4] = {part.out.x * unit, part.out.y * unit, part.out.z * unit, part.out.w * unit};
    if (T == KvType::kInt4 && layer.turned) {
      turn_head<D>(out);  // as in HeadElements<D, 4>; further lanes have none
    }
    const float4 of_lane{out[0], out[1], out[2], out[3]};
    if (phase.sent != nullptr) {
      if (lane < OfHead::kLanes) {
        float* const to = phase.sent + HeadParts::out(a.attention, share.part, share.head);
        send(reinterpret_cast<float4*>(to) + lane, of_lane, at.run);
      }
      if (a.attention.most_parts > 1 && lane == 0) {
        float* const to = phase.sent + HeadParts::numbers(a.attention, share.part, share.head);
        send(reinterpret_cast<float2*>(to), {part.largest, part.sum}, at.run);
      }
    }
    if (share.parts == 1 && lane < OfHead::kLanes) {
      reinterpret_cast<float4*>(phase.y + share.head * D)[lane] = of_lane;
    }
  }
  if (takes_newest && share.head % a.attention.group == 0) {
    constexpr KvLayout kLayout = S::kLayout;
    const int token = tokens.slot % static_cast<int>(kPageTokens);
    const long long page = tokens.slot / static_cast<int>(kPageTokens);
    std::byte* const block = phase.pages + (page * kv_heads + kv_head) * S::kBlock;
    key.store(kLayout, HeadKind::kKey, token, block, lane < OfHead::kLanes);
    value.store(kLayout, HeadKind::kValue, token, block, lane < OfHead::kLanes);
  }
  return ring.place();
}

/// Rounds the warp's groups of a row that attentions sent in parts: `parts` of them.
template <typename Inputs>
__device__ __forceinline__ void merge_parts(ChainMemory memory, std::byte* shared, int warp,
                                            int phase_of_chain, int parts, std::uint32_t run) {
  constexpr int kAtOnce = 4;
  const auto& a = *reinterpret_cast<const ChainArguments*>(shared + memory.arguments());
  const ChainPhase& phase = a.phases[phase_of_chain];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const WarpGroups groups(phase.blocks, warp);
  Inputs inputs(memory, shared, warp);
  const int shift = a.attention.layer.layout.head_dim == 128 ? 5 : 4;  // lanes of a head
#pragma unroll 1
  for (int g = 0; g < groups.count; ++g) {
    const int part_of_row = groups.group(g) * kWarp + lane;  // four numbers each
    const int head = part_of_row >> shift;
    const auto out_of = [&](int part) {
      return reinterpret_cast<const float4*>(phase.row + HeadParts::out(a.attention, part, 0)) +
             part_of_row;
    };
    const auto numbers_of = [&](int part) {
      return reinterpret_cast<const float2*>(phase.row +
                                             HeadParts::numbers(a.attention, part, head));
    };
    decode::Part all;
#pragma unroll 1
    for (int begin = 0; begin < parts; begin += kAtOnce) {
      float4 out[kAtOnce];
      float2 numbers[kAtOnce];
      const auto read = [&] {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          const int part = min(begin + i, parts - 1);
          out[i] = read_sent(out_of(part));
          numbers[i] = read_sent(numbers_of(part));
        }
      };
      read();
      await_sent(read, [&] {
        bool are_there = true;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          are_there &= is_of_run(out[i], numbers[i], run);
        }
        return are_there;
      });
      decode::Part joined;
      joined.largest = all.largest;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {  // those behind the last part are the last one again
        numbers[i] = without_run(numbers[i]);
        joined.largest = fmaxf(joined.largest, numbers[i].x);
      }
      joined.add(relative_power(all.largest, joined.largest), all.out, all.sum);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const float share = begin + i < parts ? relative_power(numbers[i].x, joined.largest) : 0.0f;
        joined.add(share, without_run(out[i]), numbers[i].y);
      }
      all = joined;
    }
    const float unit = __fdividef(1.0f, all.sum);
    inputs.take(g, {all.out.x * unit, all.out.y * unit, all.out.z * unit, all.out.w * unit});
  }
  __syncwarp();
}

#endif

}  // namespace nibble::ops::cuda
