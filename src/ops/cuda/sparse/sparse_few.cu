#include <cuda_fp16.h>

#include "device/cuda/check.h"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/device_code/warp_ring.cuh"
#include "ops/cuda/small_batch/float_inputs.cuh"
#include "ops/cuda/sparse/sparse_few.h"
#include "ops/cuda/sparse/sparse_launch.h"
#include "ops/cuda/sparse/sparse_units.cuh"

namespace nibble::ops::cuda {
namespace {

// Of a thread: what a multiprocessor has for each of 1024, and what leaves three eighths of that to
// the kernels before and behind, so that they overlap: a thread block of attention fits beside.
constexpr int kMostRegisters = 64;
constexpr int kFewRegisters = 40;
constexpr int kOnes = 0x01010101;

/// One block of 16 inputs of a token, on its way into shared memory.
template <int kDigits>
struct InputBlock {
  uint2 words[kDigits][2];
  float scale;

  /// Of 128 inputs in lane order, inputs 8 t .. 8 t + 7 of the 32 number h lie at 32 t + 8 h.
  __device__ void load(const InputCodes& x, int step_log2, int token, int block) {
    const int part = block % 8;
    const std::int8_t* source = x.codes +
                                static_cast<std::size_t>(token * kDigits) * x.blocks * 128 +
                                block / 8 * 128 + part % 2 * 64 + part / 2 * 8;
#pragma unroll
    for (int digit = 0; digit < kDigits; ++digit) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        words[digit][i] = *reinterpret_cast<const uint2*>(
            source + static_cast<std::size_t>(digit) * x.blocks * 128 + i * 32);
      }
    }
    scale = x.scales[token * x.scales_each + (block >> step_log2)];
  }

  /// Codes as the nibbles of weights come: even inputs of eight, odd ones.
  __device__ void store(uint4* codes, int stride) const {
#pragma unroll
    for (int digit = 0; digit < kDigits; ++digit) {
      uint4 ordered;
      ordered.x = __byte_perm(words[digit][0].x, words[digit][0].y, 0x5410);
      ordered.y = __byte_perm(words[digit][0].x, words[digit][0].y, 0x7632);
      ordered.z = __byte_perm(words[digit][1].x, words[digit][1].y, 0x5410);
      ordered.w = __byte_perm(words[digit][1].x, words[digit][1].y, 0x7632);
      codes[digit * stride] = ordered;
    }
  }
};

/// The activations of a launch in shared memory, with room for kTokens. What room is left over
/// holds anything: totals of tokens that there are not go nowhere.
template <int kDigits, int kTokens>
struct SharedInputs {
  std::byte* memory;
  int blocks;       // of 16 inputs
  int step_log2;    // blocks of a scale; kIndexBits: all
  int scales_each;  // of a token

  __device__ uint4* codes(int token, int block) const {
    return reinterpret_cast<uint4*>(memory) + token * kDigits * blocks + block;
  }
  /// Whether blocks have scales; the scale of a whole token is taken at the end.
  __device__ bool has_scales() const { return step_log2 != kIndexBits; }
  __device__ float* scale(int token, int block) const {
    return reinterpret_cast<float*>(memory + kTokens * kDigits * blocks * 16) +
           token * scales_each + (block >> step_log2);
  }
  /// The number `at` of m * blocks.
  __device__ void load(InputBlock<kDigits>& block, const InputCodes& x, int at) const {
    const int token = kTokens == 1 ? 0 : at / blocks;
    block.load(x, step_log2, token, at - token * blocks);
  }
  __device__ void store(const InputBlock<kDigits>& block, int at) const {
    const int token = kTokens == 1 ? 0 : at / blocks;
    const int place = at - token * blocks;
    block.store(codes(token, place), blocks);
    if ((place & ((1 << step_log2) - 1)) == 0) {
      *scale(token, place) = block.scale;
    }
  }
};

/// What a stream has of its row, and where it goes.
template <int kDigits, int kTokens>
struct Stream {
  const SharedInputs<kDigits, kTokens> x;
  float* sums;  // the pieces of all tokens
  int pieces;   // of a token
  int piece;    // the next
  int lane;
  float totals[kTokens] = {};

  /// The stream's two octets of a unit.
  __device__ void add(const LaneUnit& unit) {
    const bool first_ends = (unit.words.x & kEndsBit) != 0;
    const bool second_ends = (unit.words.y & kEndsBit) != 0;
    const Products first(x, unit.codes.x, unit.codes.y, unit.words.x);
    if constexpr (kTokens > 2) {
      first.add_to(totals);
      if (__any_sync(kAllLanes, first_ends)) {
        leave(first_ends);
      }
    }
    const Products second(x, unit.codes.z, unit.codes.w, unit.words.y);
    if constexpr (kTokens > 2) {
      second.add_to(totals);
      if (__any_sync(kAllLanes, second_ends)) {
        leave(second_ends);
      }
      return;
    }
    first.add_to(totals);
    if (__any_sync(kAllLanes, first_ends || second_ends)) {
      leave(first_ends);
      second.add_to(totals);
      leave(second_ends);
    } else {
      second.add_to(totals);
    }
  }

 private:
  /// A block of weights times its inputs: exact integers, and what they are multiplied with.
  struct Products {
    int sums[kTokens];
    float scales[kTokens];

    __device__ Products(const SharedInputs<kDigits, kTokens>& x, std::uint32_t low,
                        std::uint32_t high, std::uint32_t word) {
      // Zero points come off the codes of weights, which all tokens share; for one digit of one
      // token it is less work to take them off the sum.
      constexpr bool kShifted = kTokens * kDigits > 1;
      constexpr std::uint32_t kNibbles = 0x0f0f0f0fu;
      constexpr std::uint32_t kSigns = 0x80808080u;
      std::uint32_t codes[4] = {low & kNibbles, low >> 4 & kNibbles, high & kNibbles,
                                high >> 4 & kNibbles};
      const int block = static_cast<int>(index_of(word));
      const std::uint32_t zero = zero_of(word);
      const float scale = scale_of(word);
      if constexpr (kShifted) {
#pragma unroll
        for (std::uint32_t& code : codes) {  // bytes of -15 to 15: no byte borrows of the next
          code = ((code | kSigns) - zero * kOnes) ^ kSigns;
        }
      }
#pragma unroll
      for (int token = 0; token < kTokens; ++token) {
        const uint4* const from = x.codes(token, block);
        int sum = 0;
#pragma unroll
        for (int digit = 0; digit < kDigits; ++digit) {
          const uint4 inputs = from[digit * x.blocks];
          int products = dot(codes[0], inputs.x, 0);
          products = dot(codes[1], inputs.y, products);
          products = dot(codes[2], inputs.z, products);
          products = dot(codes[3], inputs.w, products);
          if constexpr (!kShifted) {
            int all = dot(kOnes, inputs.x, 0);
            all = dot(kOnes, inputs.y, all);
            all = dot(kOnes, inputs.z, all);
            all = dot(kOnes, inputs.w, all);
            products -= static_cast<int>(zero) * all;
          }
          sum = 255 * sum + products;
        }
        sums[token] = sum;
        scales[token] = x.has_scales() ? __fmul_rn(scale, *x.scale(token, block)) : scale;
      }
    }

    __device__ static int dot(std::uint32_t weights, std::uint32_t inputs, int sum) {
      return __dp4a(static_cast<int>(weights), static_cast<int>(inputs), sum);
    }

    __device__ void add_to(float (&totals)[kTokens]) const {
#pragma unroll
      for (int token = 0; token < kTokens; ++token) {
        totals[token] = __fmaf_rn(static_cast<float>(sums[token]), scales[token], totals[token]);
      }
    }
  };

  __device__ void leave(bool ends) {
#pragma unroll
    for (int token = 0; token < kTokens; ++token) {
      float sum = totals[token];
      sum = __fadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, 4));
      sum = __fadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, 2));
      sum = __fadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, 1));
      if (ends) {
        totals[token] = 0.0f;
        if (lane % kOctet == 0) {
          sums[token * pieces + piece] = sum;
        }
      }
    }
    piece += ends ? 1 : 0;
  }
};

/// The rows of a thread block, when all streams have left their pieces.
__device__ __forceinline__ float sum_of(const float* sums, RowPieces pieces) {
  float sum = 0.0f;
#pragma unroll 4
  for (std::uint32_t i = 0; i < pieces.count; ++i) {
    sum = __fadd_rn(sum, sums[pieces.first + i]);
  }
  return sum;
}

template <int kDigits, int kTokens>
__global__ void __maxnreg__(kTokens <= 2 ? kFewRegisters : kMostRegisters)
    sparse_few_kernel(const __grid_constant__ SparseArguments a) {
  extern __shared__ __align__(128) std::byte shared[];
  const SparseView& weight = a.weight;
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int blocks = weight.k / static_cast<int>(kSparseInputs);
  const SparseMemory memory{threads / 32, a.stages, kDigits, kTokens, blocks, weight.most_rows};
  WarpRing ring(shared + memory.rings() + warp * memory.ring_bytes(),
                reinterpret_cast<std::uint64_t*>(shared + warp * kSparseBarrierBytes), a.stages,
                static_cast<int>(kSparseUnitBytes));
  launch_dependents();
  const int place = static_cast<int>(blockIdx.x) << weight.warps_log2 | warp;
  const std::byte* ahead =
      weight.units + static_cast<std::size_t>(place) * weight.stride * kSparseUnitBytes;
  const SparseShare share = weight.shares[blockIdx.x];
  const int mine = warp_units(share.units, warp, weight.warps_log2);
  int filled = 0;
  const auto fill = [&] {
    if (filled < mine) {
      ring.fill(ahead, static_cast<int>(kSparseUnitBytes));
      ahead += kSparseUnitBytes;
    } else {
      ring.skip();
    }
    ++filled;
  };
  const auto fill_up_to = [&](int units) {
#pragma unroll 1
    while (filled < units) {
      fill();
    }
  };
  // Weights don't depend on the kernel before: they are asked for at once, but for what inputs
  // would have to wait for.
  fill_up_to((a.stages * 3 + 3) / 4);
  const int first_row = weight.stream_rows[place * kWarpStreams + lane / kOctet];
  const bool has_row = thread < share.rows;
  const std::uint32_t pieces = has_row ? weight.pieces[share.first_row + thread] : 0u;
  const float bias = has_row && a.bias != nullptr ? a.bias[share.first_row + thread] : 0.0f;
  const bool norms = a.rows.x != nullptr;
  FloatInputs<false> normed(a.rows, norms ? a.m : 0, a.chunks, shared + memory.norms(), thread,
                            threads / 32);
  wait_for_predecessor();
  const SharedInputs<kDigits, kTokens> inputs{shared + memory.codes(), blocks, a.step_log2,
                                              a.scales_each};
  const int count = a.m * blocks;
  InputCodes x{a.codes, a.scales, a.m, a.chunks, a.scales_each};
  InputBlock<kDigits> block;
  if (norms) {
    normed.read();
  } else if (thread < count) {
    inputs.load(block, x, thread);
  }
  float olds[kTokens];
#pragma unroll
  for (int token = 0; token < kTokens; ++token) {
    olds[token] = a.add != 0 && has_row && token < a.m
                      ? a.y[static_cast<std::size_t>(token) * a.ldy + share.first_row + thread]
                      : 0.0f;
  }
  fill_up_to(a.stages);
  if (norms) {
    x = normed.make<kDigits, 1>();  // so many warps have few chunks
    if (thread < count) {
      inputs.load(block, x, thread);
    }
  }
  for (int at = thread; at < count; at += threads) {
    inputs.store(block, at);
    if (at + threads < count) {
      inputs.load(block, x, at + threads);
    }
  }
  __syncthreads();
  float* const sums = reinterpret_cast<float*>(shared + memory.sums());
  Stream<kDigits, kTokens> work{inputs, sums, memory.pieces(),
                                thread / static_cast<int>(kOctet) + first_row, lane};
#pragma unroll 1
  for (int i = 0; i < mine; ++i) {
    const LaneUnit unit = LaneUnit::of_stage(ring.wait(), lane);
    ring.release();
    fill();
    work.add(unit);
  }
  __syncthreads();
  for (int row = thread; row < share.rows; row += threads) {
    const bool first = row == thread;
    const RowPieces of_row = pieces_of(first ? pieces : weight.pieces[share.first_row + row]);
    const float shift = first ? bias : a.bias != nullptr ? a.bias[share.first_row + row] : 0.0f;
#pragma unroll
    for (int token = 0; token < kTokens; ++token) {
      if (token < a.m) {
        float* const to = a.y + static_cast<std::size_t>(token) * a.ldy + share.first_row + row;
        float sum = sum_of(sums + token * memory.pieces(), of_row);
        if (!inputs.has_scales()) {
          sum = __fmul_rn(sum, *inputs.scale(token, 0));
        }
        sum = __fadd_rn(sum, shift);
        *to = a.add != 0 ? __fadd_rn(first ? olds[token] : *to, sum) : sum;
      }
    }
  }
}

template <int kDigits, int kTokens>
void launch(const SparseArguments& a, cudaStream_t stream) {
  auto* kernel = sparse_few_kernel<kDigits, kTokens>;
  const SparseView& weight = a.weight;
  const int warps = 1 << weight.warps_log2;
  const SparseMemory memory{
      warps,           a.stages, kDigits, kTokens, weight.k / static_cast<int>(kSparseInputs),
      weight.most_rows};
  const int bytes = memory.norms() + (a.rows.x != nullptr ? normed_bytes(a) : 0);
  allow_shared_bytes(kernel, bytes);
  launch_dependent(kernel, dim3(static_cast<unsigned>(weight.blocks)),
                   dim3(static_cast<unsigned>(warps) * 32), static_cast<std::size_t>(bytes), stream,
                   a);
}

}  // namespace

int sparse_shared_bytes() {
  return max_shared_bytes();
}

int normed_bytes(const SparseArguments& a) {
  return FloatInputs<false>::bytes(a.m, a.chunks);
}

void launch_sparse_few(const SparseArguments& a, int digits, int tokens, cudaStream_t stream) {
  const auto with = [&]<int kDigits>() {
    switch (tokens) {
      case 1:
        return launch<kDigits, 1>(a, stream);
      case 2:
        return launch<kDigits, 2>(a, stream);
      case 3:
        return launch<kDigits, 3>(a, stream);
      case 4:
        return launch<kDigits, 4>(a, stream);
      case 6:
        return launch<kDigits, 6>(a, stream);
      default:
        return launch<kDigits, kMostSparseTokens>(a, stream);
    }
  };
  digits == 2 ? with.template operator()<2>() : with.template operator()<1>();
}

}  // namespace nibble::ops::cuda
