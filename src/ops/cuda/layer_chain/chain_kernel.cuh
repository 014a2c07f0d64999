#pragma once

#include <cstdint>

#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/elementwise/activated.cuh"
#include "ops/cuda/layer_chain/chain_arguments.h"
#include "ops/cuda/layer_chain/chain_attention.cuh"
#include "ops/cuda/layer_chain/chain_products.cuh"

/// The kernel of layer_chain.h: one thread block on each multiprocessor.
namespace nibble::ops::cuda {

inline constexpr int kChainThreads = (kChainWarps + kCopyingWarps) * kWarp;

#if __CUDA_ARCH__ >= 900

__device__ __forceinline__ float sum_of_warps(const float* of_warps) {
  static_assert(kChainWarps == 8);
  const float4 a = reinterpret_cast<const float4*>(of_warps)[0];
  const float4 b = reinterpret_cast<const float4*>(of_warps)[1];
  return ((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w));
}

// Rows of a thread block's i-th result: its first one; behind a gate that of up is 8 further.
__device__ __forceinline__ int row_of_result(const ChainPhase& phase, int i) {
  const int shift = phase.gated ? 3 : 4;  // 8 or 16 results of a tile
  return (i >> shift) * 16 + (i & ((1 << shift) - 1));
}

// What a result is made with, beside sums.
struct Addends {
  float bias = 0.0f;
  float bias_of_up = 0.0f;
  float old = 0.0f;
  float factor = 1.0f;  // of products, with books
  float factor_of_up = 1.0f;
};
template <typename Weights>
__device__ __forceinline__ Addends addends_of(const ChainPhase& phase, const ChainShare& share,
                                              int i) {
  Addends addends;
  const int tiles = share.end - share.begin;
  if (i < (phase.gated ? tiles * 8 : tiles * 16)) {
    const int row = share.begin * 16 + row_of_result(phase, i);
    if (phase.bias != nullptr) {
      addends.bias = __ldg(phase.bias + row);
      addends.bias_of_up = phase.gated ? __ldg(phase.bias + row + 8) : 0.0f;
    }
    if constexpr (Weights::kHasTable) {
      addends.factor = __ldg(phase.factors + row);
      addends.factor_of_up = phase.gated ? __ldg(phase.factors + row + 8) : 1.0f;
    }
    if (phase.adds) {
      // Last written by the same thread, or by an earlier kernel.
      addends.old = __ldcg(phase.y + share.begin * (phase.gated ? 8 : 16) + i);
    }
  }
  return addends;
}

// Adds the sums of all warps, makes results of them, and writes them. `squares`: of the warps.
// `addends`: of the thread's first result.
template <typename Weights>
__device__ __forceinline__ void write_results(const ChainPhase& phase, const ChainShare& share,
                                              const float* sums, const float* squares,
                                              Addends addends, std::uint32_t run) {
  const int thread = static_cast<int>(threadIdx.x);
  const int of_tile = phase.gated ? 8 : 16;
  const int results = (share.end - share.begin) * of_tile;
  for (int i = thread; i < results; i += kChainWarps * kWarp) {
    if (i != thread) {
      addends = addends_of<Weights>(phase, share, i);
    }
    const float* const row = sums + row_of_result(phase, i) * kChainWarps;
    float result = sum_of_warps(row);
    float up = phase.gated ? sum_of_warps(row + 8 * kChainWarps) : 0.0f;
    if constexpr (Weights::kHasTable) {
      result *= addends.factor;
      up *= addends.factor_of_up;
    }
    if (phase.norm != nullptr) {
      const float factor = rsqrtf(fmaf(sum_of_warps(squares), phase.inverse_inputs, phase.eps));
      result *= factor;
      up *= factor;
    }
    result += addends.bias;
    if (phase.gated) {
      // Other kinds go by a table, which comes from memory, too.
      const auto gate = static_cast<MlpActivation>(phase.gate);
      result = gate == MlpActivation::kSilu ? result * sigmoid(result) : activated(gate, result);
      result *= up + addends.bias_of_up;
    }
    result += addends.old;
    const int n = share.begin * of_tile + i;
    if (phase.sent != nullptr) {
      send(phase.sent + n, result, run);
    }
    phase.y[n] = result;
  }
}

// By all threads, which then must meet.
__device__ __forceinline__ void copy_arguments(const ChainArguments& given, std::byte* to) {
  // As memory: constants come one for each instruction, where lanes ask for different ones.
  const auto* from = reinterpret_cast<const uint4*>(&given);
  asm volatile("" : "+l"(from));
  for (int i = static_cast<int>(threadIdx.x); i < given.bytes() / 16; i += kChainThreads) {
    reinterpret_cast<uint4*>(to)[i] = from[i];
  }
}

// RoPE at the row's position, in shared memory: by the warps that multiply, which then must meet.
__device__ __forceinline__ void find_turns(const AttentionLayer& layer, int position,
                                           float2* turns) {
  const int half = static_cast<int>(layer.rotary) / 2;
  for (int i = static_cast<int>(threadIdx.x); i < half; i += kChainWarps * kWarp) {
    turns[i] = rope_turn(layer, static_cast<float>(position), i);
  }
}

// What is not read in this run must be of this run still: a later one may read it.
__device__ __forceinline__ void send_nothing(const ChainAttention& attention,
                                             const HeadShare& share, float* sent,
                                             std::uint32_t run) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (lane < static_cast<int>(attention.layer.layout.head_dim) / 4) {
    float* const to = sent + HeadParts::out(attention, share.part, share.head);
    send(reinterpret_cast<float4*>(to) + lane, float4{}, run);
  }
  if (lane == 0) {
    float* const to = sent + HeadParts::numbers(attention, share.part, share.head);
    send(reinterpret_cast<float2*>(to), float2{}, run);
  }
}

// Begins to copy the tables of the thread block's rows in the first layer from phase p on; by the
// warps that multiply, which then wait for what they copied and meet.
__device__ __forceinline__ void copy_tables(const ChainArguments& a, int p, int block,
                                            std::byte* to) {
  if (p < a.count && a.phases[p].pages != nullptr) {
    ++p;  // an attention
  }
  if (p >= a.count) {
    return;
  }
  const ChainShare share(a.phases[p], block);
  const std::int8_t* const tables = a.phases[p].tables + share.begin * 256;
  for (int i = static_cast<int>(threadIdx.x); i < (share.end - share.begin) * 16;
       i += kChainWarps * kWarp) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to + i * 16)),
                 "l"(tables + i * 16)
                 : "memory");
  }
}
__device__ __forceinline__ void await_tables() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// A warp that multiplies.
template <typename Weights, typename Heads>
__device__ __forceinline__ void run_phases(const ChainArguments& a, const ChainMemory& memory,
                                           std::byte* shared, int warp) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarp;
  const int block = static_cast<int>(blockIdx.x);
  const auto& tokens = *reinterpret_cast<const ChainTokens*>(shared + memory.tokens());
  auto* const turns = reinterpret_cast<float2*>(shared + memory.turns());
  PieceRing ring(memory, shared, warp);
  ChainInputs<Weights> inputs(memory, shared, warp);
  constexpr bool kTables = Weights::kHasTable;
  std::uint32_t run_before = 0;  // of what the phase before sent
  int side = 0;                  // of sums: the other one may still be read
  if constexpr (Heads::kAny) {
    find_turns(a.attention.layer, tokens.position, turns);
  }
  int tables_side = 0;
  if constexpr (kTables) {
    copy_tables(a, 0, block, shared + memory.tables_of(0));
    await_tables();
    sync_chain_warps();
  }
#pragma unroll 1
  for (int p = 0; p < a.count; ++p) {
    const ChainPhase phase = a.phases[p];  // in registers
    if constexpr (Heads::kAny) {
      if (of_warp(phase.pages != nullptr)) {
        const std::uint32_t run = phase.sent == nullptr ? 0 : __ldcg(phase.sent_runs + block) + 1;
        const HeadShare share(a.attention, tokens, block);
        if (of_warp(share.attends())) {
          ring.go_to(attend_with_head<Heads::kType, Heads::kSize>(
              memory, shared, warp, {p, side, run_before, run}, ring.place()));
          side ^= 1;
        } else if (share.part < a.attention.most_parts && warp == 0) {
          send_nothing(a.attention, share, phase.sent, run);
        }
        run_before = run;
        continue;
      }
    }
    const ChainShare share(phase, block);
    const WarpGroups groups(phase.blocks, warp);
    auto* const sums = reinterpret_cast<float*>(shared + memory.sums_of(side));
    auto* const squares = reinterpret_cast<float*>(shared + memory.squares_of(side));
    inputs.enter(phase, groups);
    if (p == 0) {
      wait_for_predecessor();
    }
    const Addends addends = addends_of<Weights>(phase, share, thread);
    const auto* const tables =
        reinterpret_cast<const uint4*>(shared + memory.tables_of(tables_side));
    if constexpr (kTables) {
      tables_side ^= 1;
      copy_tables(a, p + 1, block, shared + memory.tables_of(tables_side));
    }
    const std::uint32_t run = phase.sent == nullptr ? 0 : __ldcg(phase.sent_runs + block) + 1;
    bool rounds = phase.codes == nullptr;
    const int base = rounds ? kPowerBase : kCodesBase;
    if constexpr (Heads::kAny) {
      const int parts = !phase.merges ? 1 : HeadShare::parts_of(a.attention, tokens);
      if (of_warp(parts > 1)) {
        merge_parts<ChainInputs<Weights>>(memory, shared, warp, p, parts, run_before);
        rounds = false;
      }
    }
    if (rounds) {
      inputs.begin_row(run_before);
    } else if (phase.codes != nullptr) {
      inputs.copy_codes(phase, groups);
    }
    multiply_share<Weights>(inputs, ring, groups.count, share, base, of_warp(rounds), tables,
                            sums + warp);
    if (phase.norm != nullptr) {
      const float square = warp_sum(inputs.square());
      if (lane == 0) {
        squares[warp] = square;
      }
    }
    // The sums of the next phase lie elsewhere, so that no warp needs to wait for those that still
    // read these.
    if constexpr (kTables) {
      await_tables();
    }
    sync_chain_warps();
    write_results<Weights>(phase, share, sums, squares, addends, run);
    run_before = run;
    side ^= 1;
  }
  // Every thread has read its counts by now.
  static_assert(kMostChained <= kChainWarps * kWarp);
  sync_chain_warps();
  if (thread < a.count && a.phases[thread].sent != nullptr) {
    a.phases[thread].sent_runs[block] += 1;
  }
}

// The tokens of the row whose first item this is.
__device__ __forceinline__ ChainTokens tokens_of(const DecodeItem& item) {
  constexpr int kTokens = static_cast<int>(kPageTokens);
  return {item.table,    (item.position + kTokens - 1 - item.first) / kTokens,
          item.first,    item.begin,
          item.position, item.slot};
}

#endif

template <typename Weights, typename Heads>
__global__ void __launch_bounds__(kChainThreads, 1)
    chain_kernel([[maybe_unused]] const __grid_constant__ ChainArguments given) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) std::byte shared[];
  const ChainMemory memory(given, Weights::format());
  auto& tokens = *reinterpret_cast<ChainTokens*>(shared + memory.tokens());
  if (Heads::kAny && threadIdx.x == kChainThreads - 1) {
    tokens = tokens_of(*given.attention.item);
  }
  copy_arguments(given, shared + memory.arguments());
  const auto& a = *reinterpret_cast<const ChainArguments*>(shared + memory.arguments());
  const int warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarp, 0);
  launch_dependents();
  if (warp == kChainWarps) {
    init_rings(shared);
  }
  __syncthreads();
  if (warp >= kChainWarps) {
    copy_pieces<Weights::kTileBytes>(a, tokens, memory, shared);
  } else {
    run_phases<Weights, Heads>(a, memory, shared, warp);
  }
#endif
}

/// Calls with the kernel for attentions of that kind.
template <typename Weights, typename Work>
void with_chain_kernel(const ChainAttention& attention, const Work& work) {
  if (attention.item == nullptr) {
    return work(chain_kernel<Weights, NoHeads>);
  }
  switch (attention.kind) {
    case ChainedHeads::kF16x64:
      return work(chain_kernel<Weights, HeadsOf<KvType::kF16, 64>>);
    case ChainedHeads::kF16x128:
      return work(chain_kernel<Weights, HeadsOf<KvType::kF16, 128>>);
    case ChainedHeads::kInt8x64:
      return work(chain_kernel<Weights, HeadsOf<KvType::kInt8, 64>>);
    case ChainedHeads::kInt8x128:
      return work(chain_kernel<Weights, HeadsOf<KvType::kInt8, 128>>);
    case ChainedHeads::kFp8x64:
      return work(chain_kernel<Weights, HeadsOf<KvType::kFp8, 64>>);
    case ChainedHeads::kFp8x128:
      return work(chain_kernel<Weights, HeadsOf<KvType::kFp8, 128>>);
    case ChainedHeads::kInt4x64:
      return work(chain_kernel<Weights, HeadsOf<KvType::kInt4, 64>>);
    case ChainedHeads::kInt4x128:
      return work(chain_kernel<Weights, HeadsOf<KvType::kInt4, 128>>);
  }
}

/// launch_chain() for weights of one kind.
template <typename Weights>
void launch_chain_of(const ChainArguments& a, int blocks, cudaStream_t stream) {
  const int bytes = ChainMemory(a, Weights::format()).bytes();
  with_chain_kernel<Weights>(a.attention, [&](auto* kernel) {
    allow_shared_bytes(kernel, bytes);
    launch_dependent(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kChainThreads),
                     static_cast<std::size_t>(bytes), stream, a);
  });
}

// Each kind of codes in a file of its own.
extern template void launch_chain_of<ChainedInt4>(const ChainArguments&, int, cudaStream_t);
extern template void launch_chain_of<ChainedInt4By32>(const ChainArguments&, int, cudaStream_t);
extern template void launch_chain_of<ChainedInt4WithZeros>(const ChainArguments&, int,
                                                           cudaStream_t);
extern template void launch_chain_of<ChainedInt4WithZerosBy32>(const ChainArguments&, int,
                                                               cudaStream_t);
extern template void launch_chain_of<ChainedInt4WithShiftsBy32>(const ChainArguments&, int,
                                                                cudaStream_t);
extern template void launch_chain_of<ChainedBook>(const ChainArguments&, int, cudaStream_t);
extern template void launch_chain_of<ChainedBookBy32>(const ChainArguments&, int, cudaStream_t);

}  // namespace nibble::ops::cuda
