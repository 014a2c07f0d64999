#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/per_device.h"
#include "ops/cuda/device_code/sm90a.cuh"
#include "ops/cuda/elementwise/activated.cuh"
#include "ops/cuda/layer_chain/chain_arguments.h"
#include "ops/cuda/layer_chain/chain_products.cuh"

// The kernel of layer_chain.h: one thread block on each multiprocessor.
namespace nibble::ops::cuda {
namespace {

constexpr int kChainThreads = (kChainWarps + 1) * kWarp;

#if __CUDA_ARCH__ >= 900

// Of the warps that multiply.
__device__ __forceinline__ void sync_chain_warps() {
  asm volatile("bar.sync 1, %0;" ::"n"(kChainWarps * kWarp) : "memory");
}

// Adds the sums of all warps, makes results of them, and writes them. `squares`: of the warps.
__device__ __forceinline__ void write_results(const ChainPhase& phase, const ChainShare& share,
                                              const float* sums, int stride, const float* squares,
                                              float old, std::uint32_t run) {
  const int thread = static_cast<int>(threadIdx.x);
  const int shift = phase.gated != 0 ? 3 : 4;  // 8 or 16 results of a tile
  const int results = (share.end - share.begin) << shift;
  for (int i = thread; i < results; i += kChainWarps * kWarp) {
    const int row = (i >> shift) * 16 + (i & ((1 << shift) - 1));
    float square = 0.0f;
    float first = 0.0f;
    float second = 0.0f;
#pragma unroll
    for (int warp = 0; warp < kChainWarps; ++warp) {
      first += sums[warp * stride + row];
      second += sums[warp * stride + row + 8];  // of up, where there are gates
      square += squares[warp];
    }
    if (phase.norm != nullptr) {
      const float factor = rsqrtf(fmaf(square, phase.inverse_inputs, phase.eps));
      first *= factor;
      second *= factor;
    }
    if (phase.bias != nullptr) {
      first += phase.bias[share.begin * 16 + row];
      second += phase.gated != 0 ? phase.bias[share.begin * 16 + row + 8] : 0.0f;
    }
    float result = first;
    if (phase.gated != 0) {
      // Other kinds go by a table, which comes from memory, too.
      result = phase.gate == MlpActivation::kSilu ? first * sigmoid(first)
                                                  : activated(phase.gate, first);
      result *= second;
    }
    const int n = (share.begin << shift) + i;
    if (phase.adds != 0) {
      result += i == thread ? old : __ldcg(phase.y + n);
    }
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
    const ChainPhase& phase = a.phases[p];
    const ChainShare share(phase, block);
    const WarpGroups groups(phase.blocks, warp);
    float* const sums = reinterpret_cast<float*>(shared + memory.sums()) +
                        p % 2 * kChainWarps * memory.sum_stride();
    float* const squares =
        reinterpret_cast<float*>(shared + memory.squares()) + p % 2 * kChainWarps;
    const ChainInputs::Weights weights = inputs.weights_of(phase, groups);
    if (p == 0) {
      wait_for_predecessor();
    }
    // What this block adds to was last written by the same thread, or by an earlier kernel.
    const bool adds = phase.adds != 0 && thread < (share.end - share.begin) * 16;
    const float old = adds ? __ldcg(phase.y + share.begin * 16 + thread) : 0.0f;
    const std::uint32_t run = phase.sent == nullptr ? 0 : __ldcg(phase.sent_runs + block) + 1;
    float square = 0.0f;
    if (phase.codes != nullptr) {
      inputs.copy_codes(phase, groups);
    } else {
      square = inputs.round_row(phase, groups, run_before, weights);
    }
    multiply_share(inputs, ring, groups.count, share,
                   phase.codes != nullptr ? kCodesBase : kPowerBase,
                   sums + warp * memory.sum_stride());
    if (phase.norm != nullptr) {
      square = warp_sum(square);
      if (lane == 0) {
        squares[warp] = square;
      }
    }
    // The sums of the next phase lie elsewhere, so that no warp needs to wait for those that still
    // read these.
    sync_chain_warps();
    write_results(phase, share, sums, memory.sum_stride(), squares, old, run);
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
  if (warp == kChainWarps) {
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
