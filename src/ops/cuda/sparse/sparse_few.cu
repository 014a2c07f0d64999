#include <cuda_fp16.h>

#include "device/cuda/check.h"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/small_batch/normed_inputs.cuh"
#include "ops/cuda/sparse/sparse_few.h"
#include "ops/cuda/sparse/sparse_launch.h"
#include "ops/cuda/sparse/sparse_units.cuh"

namespace nibble::ops::cuda {
namespace {

constexpr int kThreads = kMostSparseWarps * 32;
constexpr int kAhead = 3;  // units under way for each warp
constexpr int kOnes = 0x01010101;

/// One block of 16 inputs of a token, on its way into shared memory.
template <int kDigits>
struct InputBlock {
  uint2 words[kDigits][2];
  float scale;

  /// Of 128 inputs in lane order, inputs 8 t .. 8 t + 7 of the 32 number h lie at 32 t + 8 h.
  __device__ void load(const InputCodes& x, int token, int block) {
    const int chunk = block / 8;
    const int part = block % 8;
    const std::int8_t* source = x.codes +
                                static_cast<std::size_t>(token * kDigits) * x.blocks * 128 +
                                chunk * 128 + part % 2 * 64 + part / 2 * 8;
#pragma unroll
    for (int digit = 0; digit < kDigits; ++digit) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        words[digit][i] = *reinterpret_cast<const uint2*>(
            source + static_cast<std::size_t>(digit) * x.blocks * 128 + i * 32);
      }
    }
    const int scale_of = x.scales_each == 1 ? 0 : x.scales_each == x.blocks ? chunk : block;
    scale = x.scales[token * x.scales_each + scale_of];
  }

  /// Codes as the nibbles of weights come: even inputs of eight, odd ones. And the scale, with the
  /// sum of the codes turned over.
  __device__ void store(uint4* codes, int stride, int2* factors) const {
    int sum = 0;
#pragma unroll
    for (int digit = 0; digit < kDigits; ++digit) {
      uint4 ordered;
      ordered.x = __byte_perm(words[digit][0].x, words[digit][0].y, 0x5410);
      ordered.y = __byte_perm(words[digit][0].x, words[digit][0].y, 0x7632);
      ordered.z = __byte_perm(words[digit][1].x, words[digit][1].y, 0x5410);
      ordered.w = __byte_perm(words[digit][1].x, words[digit][1].y, 0x7632);
      codes[digit * stride] = ordered;
      int digit_sum = __dp4a(static_cast<int>(ordered.x), kOnes, 0);
      digit_sum = __dp4a(static_cast<int>(ordered.y), kOnes, digit_sum);
      digit_sum = __dp4a(static_cast<int>(ordered.z), kOnes, digit_sum);
      digit_sum = __dp4a(static_cast<int>(ordered.w), kOnes, digit_sum);
      sum = 255 * sum + digit_sum;
    }
    *factors = make_int2(__float_as_int(scale), -sum);
  }
};

/// The activations of a launch in shared memory.
template <int kDigits, int kTokens>
struct SharedInputs {
  std::byte* memory;
  int blocks;  // of 16 inputs

  __device__ uint4* codes(int token, int block) const {
    return reinterpret_cast<uint4*>(memory) + token * kDigits * blocks + block;
  }
  __device__ int2* factors(int token, int block) const {
    return reinterpret_cast<int2*>(memory + kTokens * kDigits * blocks * 16) + token * blocks +
           block;
  }
  /// The number `at` of m * blocks.
  __device__ void load(InputBlock<kDigits>& block, const InputCodes& x, int at) const {
    const int token = kTokens == 1 ? 0 : at / blocks;
    block.load(x, token, at - token * blocks);
  }
  __device__ void store(const InputBlock<kDigits>& block, int at) const {
    const int token = kTokens == 1 ? 0 : at / blocks;
    block.store(codes(token, at - token * blocks), blocks, factors(token, at - token * blocks));
  }
};

/// What a stream has of its row, and where it goes.
template <int kDigits, int kTokens>
struct Stream {
  const SharedInputs<kDigits, kTokens> x;
  int m;
  float* sums;  // the pieces of all tokens
  int pieces;   // of a token
  int piece;    // the next
  int lane;
  float totals[kTokens] = {};

  /// The stream's two octets of a unit.
  __device__ void add(const LaneUnit& unit) {
    const Products first(*this, unit.codes.x, unit.codes.y, unit.words.x);
    const Products second(*this, unit.codes.z, unit.codes.w, unit.words.y);
    const bool first_ends = (unit.words.x & kEndsBit) != 0;
    const bool second_ends = (unit.words.y & kEndsBit) != 0;
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

    __device__ Products(const Stream& stream, std::uint32_t low, std::uint32_t high,
                        std::uint32_t word) {
      constexpr std::uint32_t kNibbles = 0x0f0f0f0fu;
      const int codes[4] = {static_cast<int>(low & kNibbles), static_cast<int>(low >> 4 & kNibbles),
                            static_cast<int>(high & kNibbles),
                            static_cast<int>(high >> 4 & kNibbles)};
      const int block = static_cast<int>(index_of(word));
      const int zero = static_cast<int>(zero_of(word));
      const float scale = scale_of(word);
#pragma unroll
      for (int token = 0; token < kTokens; ++token) {
        if (kTokens <= 2 || token < stream.m) {
          const uint4* const from = stream.x.codes(token, block);
          int sum = 0;
#pragma unroll
          for (int digit = 0; digit < kDigits; ++digit) {
            const uint4 inputs = from[digit * stream.x.blocks];
            int products = __dp4a(codes[0], static_cast<int>(inputs.x), 0);
            products = __dp4a(codes[1], static_cast<int>(inputs.y), products);
            products = __dp4a(codes[2], static_cast<int>(inputs.z), products);
            products = __dp4a(codes[3], static_cast<int>(inputs.w), products);
            sum = 255 * sum + products;
          }
          const int2 factors = *stream.x.factors(token, block);
          sums[token] = sum + zero * factors.y;
          scales[token] = __fmul_rn(scale, __int_as_float(factors.x));
        } else {
          sums[token] = 0;
          scales[token] = 0.0f;
        }
      }
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
__global__ void __launch_bounds__(kThreads)
    sparse_few_kernel(const __grid_constant__ SparseArguments a) {
  extern __shared__ __align__(128) std::byte shared[];
  const SparseView& weight = a.weight;
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int blocks = weight.k / static_cast<int>(kSparseInputs);
  const SparseMemory memory{kDigits, kTokens, blocks, threads / static_cast<int>(kOctet),
                            weight.most_rows};
  launch_dependents();
  const SparseBounds begin = weight.bounds[blockIdx.x];
  const SparseBounds end = weight.bounds[blockIdx.x + 1];
  const WarpUnits mine = warp_units(end.unit - begin.unit, warp, weight.warps_log2);
  const std::byte* const units =
      weight.units + static_cast<std::size_t>(begin.unit + mine.first) * kSparseUnitBytes;
  // What is asked for later waits for what was asked for before: the inputs come second.
  LaneUnit ahead[kAhead];
  if (mine.count > 0) {
    ahead[0].load(units, lane);
  }
  const int rows = end.row - begin.row;
  const bool has_row = thread < rows;
  const std::uint32_t pieces = has_row ? weight.pieces[begin.row + thread] : 0u;
  const float bias = has_row && a.bias != nullptr ? a.bias[begin.row + thread] : 0.0f;
  const int stream = thread / static_cast<int>(kOctet);
  const int first_row =
      mine.count > 0 ? weight.stream_rows[blockIdx.x * memory.streams + stream] : 0;
  const NormedInputs normed(a.rows, kDigits == 2 && a.rows.x != nullptr ? a.m : 0, a.chunks,
                            shared + memory.norms(), thread, threads / 32);
  wait_for_predecessor();
  const SharedInputs<kDigits, kTokens> inputs{shared, blocks};
  const int count = a.m * blocks;
  const bool norms = kDigits == 2 && a.rows.x != nullptr;
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
                      ? a.y[static_cast<std::size_t>(token) * a.ldy + begin.row + thread]
                      : 0.0f;
  }
#pragma unroll
  for (int i = 1; i < kAhead; ++i) {
    if (i < mine.count) {
      ahead[i].load(units + i * kSparseUnitBytes, lane);
    }
  }
  if constexpr (kDigits == 2) {
    if (norms) {
      x = normed.make();
      if (thread < count) {
        inputs.load(block, x, thread);
      }
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
  Stream<kDigits, kTokens> work{inputs, a.m, sums, memory.pieces(), stream + first_row, lane};
  for (int base = 0; base < mine.count; base += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (base + i < mine.count) {
        work.add(ahead[i]);
        if (base + i + kAhead < mine.count) {
          ahead[i].load(units + static_cast<std::size_t>(base + i + kAhead) * kSparseUnitBytes,
                        lane);
        }
      }
    }
  }
  __syncthreads();
  for (int row = thread; row < rows; row += threads) {
    const bool first = row == thread;
    const RowPieces of_row = pieces_of(first ? pieces : weight.pieces[begin.row + row]);
    const float shift = first ? bias : a.bias != nullptr ? a.bias[begin.row + row] : 0.0f;
#pragma unroll
    for (int token = 0; token < kTokens; ++token) {
      if (token < a.m) {
        float* const to = a.y + static_cast<std::size_t>(token) * a.ldy + begin.row + row;
        const float sum = __fadd_rn(sum_of(sums + token * memory.pieces(), of_row), shift);
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
  const SparseMemory memory{kDigits, kTokens, weight.k / static_cast<int>(kSparseInputs),
                            warps * kWarpStreams, weight.most_rows};
  const int bytes = memory.norms() + (a.rows.x != nullptr ? NormedInputs::bytes(a.m, a.chunks) : 0);
  allow_shared_bytes(kernel, bytes);
  launch_dependent(kernel, dim3(static_cast<unsigned>(weight.blocks)),
                   dim3(static_cast<unsigned>(warps) * 32), static_cast<std::size_t>(bytes), stream,
                   a);
}

}  // namespace

int sparse_shared_bytes() {
  return max_shared_bytes();
}

void launch_sparse_few(const SparseArguments& a, int digits, int tokens, cudaStream_t stream) {
  const auto with = [&]<int kDigits>() {
    tokens == 1   ? launch<kDigits, 1>(a, stream)
    : tokens == 2 ? launch<kDigits, 2>(a, stream)
                  : launch<kDigits, kMostSparseTokens>(a, stream);
  };
  digits == 2 ? with.template operator()<2>() : with.template operator()<1>();
}

}  // namespace nibble::ops::cuda
