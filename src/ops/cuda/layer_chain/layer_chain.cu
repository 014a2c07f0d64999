#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/per_device.h"
#include "ops/cuda/device_code/sm90a.cuh"
#include "ops/cuda/elementwise/activated.cuh"
#include "ops/cuda/layer_chain/chain_arguments.h"
#include "ops/cuda/layer_chain/chain_products.cuh"

// The kernel of layer_chain.h: one thread block on each multiprocessor.
namespace nibble::ops::cuda {
namespace {

constexpr int kChainThreads = (kChainWarps + kCopyingWarps) * kWarp;

#if __CUDA_ARCH__ >= 900

// Of the warps that multiply.
__device__ __forceinline__ void sync_chain_warps() {
  asm volatile("bar.sync 1, %0;" ::"n"(kChainWarps * kWarp) : "memory");
}

__device__ __forceinline__ float sum_of_warps(const float* of_warps) {
  static_assert(kChainWarps == 8);
  const float4 a = reinterpret_cast<const float4*>(of_warps)[0];
  const float4 b = reinterpret_cast<const float4*>(of_warps)[1];
  return ((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w));
}

// Rows of a thread block's i-th result: its first one; behind a gate that of up is 8 further.
__device__ __forceinline__ int row_of_result(const ChainPhase& phase, int i) {
  const int shift = phase.gated != 0 ? 3 : 4;  // 8 or 16 results of a tile
  return (i >> shift) * 16 + (i & ((1 << shift) - 1));
}

// What a result is added to.
struct Addends {
  float bias = 0.0f;
  float bias_of_up = 0.0f;
  float old = 0.0f;
};
__device__ __forceinline__ Addends addends_of(const ChainPhase& phase, const ChainShare& share,
                                              int i) {
  Addends addends;
  const int tiles = share.end - share.begin;
  if (i < (phase.gated != 0 ? tiles * 8 : tiles * 16)) {
    const int row = share.begin * 16 + row_of_result(phase, i);
    if (phase.bias != nullptr) {
      addends.bias = __ldg(phase.bias + row);
      addends.bias_of_up = phase.gated != 0 ? __ldg(phase.bias + row + 8) : 0.0f;
    }
    if (phase.adds != 0) {
      // Last written by the same thread, or by an earlier kernel.
      addends.old = __ldcg(phase.y + share.begin * (phase.gated != 0 ? 8 : 16) + i);
    }
  }
  return addends;
}

// Adds the sums of all warps, makes results of them, and writes them. `squares`: of the warps.
// `addends`: of the thread's first result.
__device__ __forceinline__ void write_results(const ChainPhase& phase, const ChainShare& share,
                                              const float* sums, const float* squares,
                                              Addends addends, std::uint32_t run) {
  const int thread = static_cast<int>(threadIdx.x);
  const int of_tile = phase.gated != 0 ? 8 : 16;
  const int results = (share.end - share.begin) * of_tile;
  for (int i = thread; i < results; i += kChainWarps * kWarp) {
    if (i != thread) {
      addends = addends_of(phase, share, i);
    }
    const float* const row = sums + row_of_result(phase, i) * kChainWarps;
    float result = sum_of_warps(row);
    float up = phase.gated != 0 ? sum_of_warps(row + 8 * kChainWarps) : 0.0f;
    if (phase.norm != nullptr) {
      const float factor = rsqrtf(fmaf(sum_of_warps(squares), phase.inverse_inputs, phase.eps));
      result *= factor;
      up *= factor;
    }
    result += addends.bias;
    if (phase.gated != 0) {
      // Other kinds go by a table, which comes from memory, too.
      result = phase.gate == MlpActivation::kSilu ? result * sigmoid(result)
                                                  : activated(phase.gate, result);
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

// A warp that multiplies.
__device__ __forceinline__ void run_phases(const ChainArguments& a, const ChainMemory& memory,
                                           std::byte* shared, int warp) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarp;
  const int block = static_cast<int>(blockIdx.x);
  PieceRing ring(memory, shared, warp);
  ChainInputs inputs(memory, shared, warp);
  std::uint32_t run_before = 0;  // of what the phase before sent
#pragma unroll 1
  for (int p = 0; p < a.count; ++p) {
    const ChainPhase phase = a.phases[p];  // in registers
    const ChainShare share(phase, block);
    const WarpGroups groups(phase.blocks, warp);
    float* const sums =
        reinterpret_cast<float*>(shared + memory.sums()) + p % 2 * memory.rows * kChainWarps;
    float* const squares =
        reinterpret_cast<float*>(shared + memory.squares()) + p % 2 * kChainWarps;
    inputs.enter(phase, groups);
    if (p == 0) {
      wait_for_predecessor();
    }
    const Addends addends = addends_of(phase, share, thread);
    const std::uint32_t run = phase.sent == nullptr ? 0 : __ldcg(phase.sent_runs + block) + 1;
    const bool rounds = phase.codes == nullptr;
    if (rounds) {
      inputs.begin_row(run_before);
    } else {
      inputs.copy_codes(phase, groups);
    }
    multiply_share(inputs, ring, groups.count, share, rounds ? kPowerBase : kCodesBase, rounds,
                   sums + warp);
    if (phase.norm != nullptr) {
      const float square = warp_sum(inputs.square());
      if (lane == 0) {
        squares[warp] = square;
      }
    }
    // The sums of the next phase lie elsewhere, so that no warp needs to wait for those that still
    // read these.
    sync_chain_warps();
    write_results(phase, share, sums, squares, addends, run);
    run_before = run;
  }
  // Every thread has read its counts by now.
  sync_chain_warps();
  if (thread < a.count && a.phases[thread].sent != nullptr) {
    a.phases[thread].sent_runs[block] += 1;
  }
}

#endif

__global__ void __launch_bounds__(kChainThreads, 1)
    chain_kernel([[maybe_unused]] const __grid_constant__ ChainArguments given) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) std::byte shared[];
  const ChainMemory memory(given);
  auto* const words = reinterpret_cast<std::uint32_t*>(shared + memory.arguments());
  constexpr int kWords = sizeof(ChainArguments) / 4;
  static_assert(kWords * 4 == sizeof(ChainArguments) && kWords <= kChainThreads);
  if (threadIdx.x < kWords) {
    words[threadIdx.x] = reinterpret_cast<const std::uint32_t*>(&given)[threadIdx.x];
  }
  const auto& a = *reinterpret_cast<const ChainArguments*>(words);
  const int warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarp, 0);
  launch_dependents();
  if (warp == kChainWarps) {
    init_rings(shared);
  }
  __syncthreads();
  if (warp >= kChainWarps) {
    copy_pieces(a, memory, shared);
  } else {
    run_phases(a, memory, shared, warp);
  }
#endif
}

}  // namespace

int chain_shared_bytes() {
  return of_current_device([] { return runs_for_sm90a(chain_kernel) ? max_shared_bytes() : 0; });
}

void launch_chain(const ChainArguments& a, int blocks, cudaStream_t stream) {
  const int bytes = ChainMemory(a).bytes();
  allow_shared_bytes(chain_kernel, bytes);
  launch_dependent(chain_kernel, dim3(static_cast<unsigned>(blocks)), dim3(kChainThreads),
                   static_cast<std::size_t>(bytes), stream, a);
}

}  // namespace nibble::ops::cuda
