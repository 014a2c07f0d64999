#include <cuda_fp16.h>

#include "device/cuda/check.h"
#include "ops/cuda/device_code/cluster.cuh"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/mma.cuh"
#include "ops/cuda/device_code/warp_ring.cuh"
#include "ops/cuda/small_batch/decoders.cuh"
#include "ops/cuda/small_batch/launch.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kRows = 64;           // of a unit
constexpr int kBarrierBytes = 128;  // a warp's barriers, padded
constexpr int kSlack = 2560;        // a tile may be read beyond the end of the last ring

using Arguments = SmallBatchArguments;

/// What one thread block computes: row tiles [tile_begin, tile_end) over the inputs of units
/// [block_begin, block_end). The blocks of a cluster share the tiles and divide the inputs. A
/// portion is what of the tiles lies in one unit.
struct Part {
  int tile_begin;
  int tile_end;
  int block_begin;
  int block_end;

  __device__ static Part of(const Arguments& a) {
    const int size = cluster_size();
    const int rank = cluster_rank();
    const int cluster = static_cast<int>(size == 1 ? blockIdx.x : blockIdx.x / size);
    const int tile = cluster * a.tiles_each + min(cluster, a.tiles_more);
    return {tile, tile + a.tiles_each + (cluster < a.tiles_more ? 1 : 0),
            size == 1 ? 0 : a.blocks * rank / size,
            size == 1 ? a.blocks : a.blocks * (rank + 1) / size};
  }

  __device__ int portion(int tile) const { return min(4 - (tile & 3), tile_end - tile); }
};

/// A warp's steps in the order in which it computes them: every warps-th unit of each portion.
struct Cursor {
  int tile;  // the first one of the portion
  int block;

  __device__ static Cursor first(const Part& part, int warp) {
    const int block = part.block_begin + warp;  // a warp without units has none in any portion
    return {block < part.block_end ? part.tile_begin : part.tile_end, block};
  }
  /// True when that was the last step of the portion.
  __device__ bool advance(const Part& part, int warp, int warps) {
    block += warps;
    if (block < part.block_end) {
      return false;
    }
    block = part.block_begin + warp;
    tile += part.portion(tile);
    return true;
  }
  __device__ bool valid(const Part& part) const { return tile < part.tile_end; }
};

/// Activations of one unit for one warp: lane 4 g + t holds those of column g.
template <int kDigits, int kColumns>
struct Inputs {
  static constexpr int kTokens = kDigits == 2 ? 1 : 2;  // of a lane in eight columns
  uint4 codes[kColumns][2];
  float scales[kColumns][kTokens];

  __device__ void load(const Arguments& a, int columns, int block, int lane) {
    const std::size_t stride = static_cast<std::size_t>(a.blocks) * 128;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      const int column = n * 8 + lane / 4;
      const auto* source =
          reinterpret_cast<const uint4*>(a.codes + column * stride + block * 128 + lane % 4 * 32);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        codes[n][i] = column < columns ? source[i] : make_uint4(0, 0, 0, 0);
      }
#pragma unroll
      for (int i = 0; i < kTokens; ++i) {
        const int token = (n * 8 + lane % 4 * 2) / kDigits + i;
        scales[n][i] =
            token < a.m ? a.scales[a.scales_each == 1 ? token : token * a.blocks + block] : 0.0f;
      }
    }
  }
  __device__ std::uint32_t word(int n, int h, int e) const {
    const uint4& v = codes[n][h / 2];
    return h % 2 == 0 ? (e == 0 ? v.x : v.y) : (e == 0 ? v.z : v.w);
  }
};

__device__ __forceinline__ float2 scale_pair(const std::byte* source, bool bf16) {
  const std::uint32_t bits = *reinterpret_cast<const std::uint32_t*>(source);
  if (bf16) {
    return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u));
  }
  return make_float2(__half2float(__ushort_as_half(static_cast<unsigned short>(bits))),
                     __half2float(__ushort_as_half(static_cast<unsigned short>(bits >> 16))));
}

/// kGroups: groups of a unit. kDigits: columns of a token. kColumns: columns in eights.
template <typename Decoder, bool kZeros, int kGroups, int kDigits, int kColumns>
class Kernel {
 public:
  static constexpr int kTokensOfLane = kDigits == 2 ? 1 : 2;  // in eight columns
  static constexpr int kTokens = kColumns * 8 / kDigits;
  static constexpr int kSumStride = kRows + 8;  // keeps lanes apart in the banks
  static constexpr int kZeroOffset = Decoder::kCodeBytes + 16 * kGroups * 2;  // in a tile

  __host__ __device__ static int tile_bytes(bool zeros) {
    return kZeroOffset + (zeros ? 16 * kGroups : 0);
  }
  /// Barriers of all warps, their rings, their sums, and the sums of the block.
  static int shared_bytes(int warps, int stages, int stage_tiles, int kept) {
    return warps * (kBarrierBytes + stages * stage_tiles * tile_bytes(kZeros) +
                    kTokens * kSumStride * 4) +
           kSlack + kept * kRows * kTokens * 4;
  }

  __device__ static void run(const Arguments& a, std::byte* shared) {
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int warps = blockDim.x / 32;
    const Part part = Part::of(a);
    const int bytes = tile_bytes(kZeros);
    const int stage_bytes = a.stage_tiles * bytes;
    std::byte* rings = shared + warps * kBarrierBytes;
    float* sums = reinterpret_cast<float*>(rings + warps * a.stages * stage_bytes);
    float* kept = sums + warps * kTokens * kSumStride;

    WarpRing ring(rings + warp * a.stages * stage_bytes,
                  reinterpret_cast<std::uint64_t*>(shared + warp * kBarrierBytes), a.stages,
                  stage_bytes);
    launch_dependents();
    Cursor ahead = Cursor::first(part, warp);
    const std::byte* source = a.units + unit_offset(a, ahead, bytes);
    bool more = ahead.valid(part);
    auto fill = [&] {
      if (!more) {
        return ring.skip();
      }
      ring.fill(source, part.portion(ahead.tile) * bytes);
      if (!ahead.advance(part, warp, warps)) {
        source += warps * 4 * bytes;
        return;
      }
      source = a.units + unit_offset(a, ahead, bytes);
      more = ahead.valid(part);
    };
#pragma unroll 1
    for (int i = 0; i < a.stages; ++i) {
      fill();
    }
    wait_for_predecessor();

    const int columns = a.m * kDigits;
    Cursor at = Cursor::first(part, warp);
    Inputs<kDigits, kColumns> next;
    if (at.valid(part)) {
      next.load(a, columns, at.block, lane);
    }
    int slot = 0;
    for (int tile = part.tile_begin; tile < part.tile_end;) {
      const int tiles = part.portion(tile);
      float totals[4][kColumns][2 * kTokensOfLane] = {};
      typename Decoder::Rows rows[4];
      if constexpr (Decoder::kHasTable) {
        load_tables(a, tile, tiles, lane, rows);
      }
      while (at.tile == tile) {
        const Inputs<kDigits, kColumns> inputs = next;
        const int block = at.block;
        at.advance(part, warp, warps);
        if (at.block != block && at.valid(part)) {
          next.load(a, columns, at.block, lane);
        }
        const InputSums x_sums(inputs);
        const std::byte* stage = ring.wait();
        multiply<0>(a, stage, bytes, lane, inputs, x_sums, rows, totals);
        if (tiles > 2) {
          multiply<2>(a, stage, bytes, lane, inputs, x_sums, rows, totals);
        }
        ring.release();
        fill();
      }
      put_totals(totals, sums + warp * kTokens * kSumStride, lane);
      __syncthreads();
      finish(a, tile, tiles, sums, kept + slot * kRows * a.m);
      tile += tiles;
      if (cluster_size() > 1 && (++slot == a.kept || tile >= part.tile_end)) {
        combine(a, part, tile, slot, kept);
        slot = 0;
      }
      __syncthreads();  // sums may be written again
    }
  }

 private:
  __device__ static std::int64_t unit_offset(const Arguments& a, const Cursor& at, int bytes) {
    return (static_cast<std::int64_t>(at.tile / 4 * a.blocks + at.block) * 4 + at.tile % 4) * bytes;
  }

  __device__ static void load_tables(const Arguments& a, int first, int tiles, int lane,
                                     typename Decoder::Rows (&rows)[4]) {
    if constexpr (Decoder::kHasTable) {
      const auto* tables = reinterpret_cast<const uint4*>(a.tables) + first * 16 + lane / 4;
#pragma unroll
      for (int tile = 0; tile < 4; ++tile) {
        if (tile < tiles) {
          rows[tile].lower = tables[tile * 16];
          rows[tile].upper = tables[tile * 16 + 8];
        }
      }
    }
  }

  __device__ static int token_of(int n, int lane, int i) {
    return (n * 8 + lane % 4 * 2) / kDigits + i;
  }

  static constexpr bool kSums = kZeros || Decoder::kNeedsSums;
  static constexpr int kSteps = 4 / kGroups;  // of 32 inputs in a group

  /// Sums of a token's codes over each group: products with ones.
  struct InputSums {
    int x[kGroups][kColumns][kTokensOfLane];

    __device__ explicit InputSums(const Inputs<kDigits, kColumns>& inputs) {
      if constexpr (kSums) {
        constexpr std::uint32_t kOnes = 0x01010101u;
        const std::uint32_t ones[4] = {kOnes, kOnes, kOnes, kOnes};
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
#pragma unroll
          for (int n = 0; n < kColumns; ++n) {
            std::int32_t c[4] = {};
#pragma unroll
            for (int h = group * kSteps; h < (group + 1) * kSteps; ++h) {
              mma_s8(c, ones, inputs.word(n, h, 0), inputs.word(n, h, 1));
            }
#pragma unroll
            for (int i = 0; i < kTokensOfLane; ++i) {
              x[group][n][i] = of_token(c[0], c[1], i);
            }
          }
        }
      }
    }
  };

  /// The lane's i-th token of two columns: a digit to the base 255 each, or a token each.
  __device__ static int of_token(int first, int second, int i) {
    return kDigits == 2 ? 255 * first + second : i == 0 ? first : second;
  }

  /// Adds the products of two tiles of a unit to the totals of their rows: totals[tile][n][rows g,
  /// g + 8 of each token]. The second tile may be absent: what is read in its place is never used.
  template <int kFirst>
  __device__ static void multiply(const Arguments& a, const std::byte* stage, int bytes, int lane,
                                  const Inputs<kDigits, kColumns>& inputs, const InputSums& sums,
                                  const typename Decoder::Rows (&rows)[4],
                                  float (&totals)[4][kColumns][2 * kTokensOfLane]) {
    typename Decoder::Words words[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      words[i] = Decoder::Words::load(stage + (kFirst + i) * bytes, lane);
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      std::int32_t c[2][kColumns][4] = {};
#pragma unroll
      for (int h = group * kSteps; h < (group + 1) * kSteps; ++h) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          std::uint32_t operand[4];
          Decoder::decode(words[i], h, rows[kFirst + i], operand);
#pragma unroll
          for (int n = 0; n < kColumns; ++n) {
            mma_s8(c[i][n], operand, inputs.word(n, h, 0), inputs.word(n, h, 1));
          }
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const std::byte* tile = stage + (kFirst + i) * bytes;
        int zero_of_lower = Decoder::kZero;
        int zero_of_upper = Decoder::kZero;
        if constexpr (kZeros) {
          const unsigned pair = *reinterpret_cast<const std::uint16_t*>(tile + kZeroOffset +
                                                                        group * 16 + lane / 4 * 2);
          zero_of_lower = static_cast<int>(pair & 0xffu);
          zero_of_upper = static_cast<int>(pair >> 8);
        }
        const float2 scale =
            scale_pair(tile + Decoder::kCodeBytes + group * 32 + lane / 4 * 4, a.bf16_scales != 0);
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
#pragma unroll
          for (int t = 0; t < kTokensOfLane; ++t) {
            int lower = of_token(c[i][n][0], c[i][n][1], t);
            int upper = of_token(c[i][n][2], c[i][n][3], t);
            if constexpr (kSums) {
              Decoder::finish(lower, upper, zero_of_lower, zero_of_upper, sums.x[group][n][t]);
            }
            float(&total)[2 * kTokensOfLane] = totals[kFirst + i][n];
            const float x_scale = inputs.scales[n][t];
            total[2 * t] = fmaf(static_cast<float>(lower) * scale.x, x_scale, total[2 * t]);
            total[2 * t + 1] = fmaf(static_cast<float>(upper) * (scale.y * Decoder::kUpperUnit),
                                    x_scale, total[2 * t + 1]);
          }
        }
      }
    }
  }

  /// To sums[token][row] of this warp.
  __device__ static void put_totals(const float (&totals)[4][kColumns][2 * kTokensOfLane],
                                    float* sums, int lane) {
#pragma unroll
    for (int tile = 0; tile < 4; ++tile) {
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
#pragma unroll
        for (int i = 0; i < kTokensOfLane; ++i) {
          float* target = sums + token_of(n, lane, i) * kSumStride + tile * 16 + lane / 4;
          target[0] = totals[tile][n][2 * i];
          target[8] = totals[tile][n][2 * i + 1];
        }
      }
    }
  }

  /// Adds what the warps have of one portion: to y, or to kept[token][64 rows] where other blocks
  /// have the rest.
  __device__ static void finish(const Arguments& a, int tile, int tiles, const float* sums,
                                float* kept) {
    const int warps = blockDim.x / 32;
    for (int i = threadIdx.x; i < a.m * kRows; i += blockDim.x) {
      const int token = i / kRows;
      const int row = i % kRows;
      float sum = 0.0f;
      for (int warp = 0; warp < warps; ++warp) {
        sum += sums[(warp * kTokens + token) * kSumStride + row];
      }
      if (cluster_size() > 1) {
        kept[i] = sum;
      } else if (row < tiles * 16) {
        write(a, token, tile * 16 + row, sum);
      }
    }
  }

  /// Adds what the blocks of the cluster have of the last `slots` portions, the last of which
  /// begins at `tile`. Each block writes some of the rows.
  __device__ static void combine(const Arguments& a, const Part& part, int tile, int slots,
                                 const float* kept) {
    cluster_barrier();
    const int size = cluster_size();
    // Portions but the first one of a part begin with a unit.
    const int first_unit = (tile - 1) / 4 - (slots - 1);
    const int count = slots * kRows * a.m;
    for (int i = cluster_rank() * blockDim.x + threadIdx.x; i < count; i += size * blockDim.x) {
      float sum = 0.0f;
      for (int rank = 0; rank < size; ++rank) {
        sum += load_of_rank(kept + i, rank);
      }
      const int unit = first_unit + i / (kRows * a.m);
      const int begin = max(unit * 4, part.tile_begin);
      const int row = i % kRows;
      if (row < (min(unit * 4 + 4, part.tile_end) - begin) * 16) {
        write(a, i / kRows % a.m, begin * 16 + row, sum);
      }
    }
    cluster_barrier();
  }

  __device__ static void write(const Arguments& a, int token, int n, float sum) {
    if (n < a.n) {
      const float factor = a.factors == nullptr ? 1.0f : a.factors[n];
      a.y[static_cast<std::size_t>(token) * a.ldy + n] =
          sum * factor + (a.bias == nullptr ? 0.0f : a.bias[n]);
    }
  }
};

template <typename Decoder, bool kZeros, int kGroups, int kDigits, int kColumns>
__global__ void __launch_bounds__(kSmallBatchMaxWarps * 32)
    small_batch_kernel(const __grid_constant__ Arguments arguments) {
  extern __shared__ __align__(128) std::byte shared[];
  Kernel<Decoder, kZeros, kGroups, kDigits, kColumns>::run(arguments, shared);
}

template <typename Decoder, bool kZeros, int kGroups, int kDigits, int kColumns>
void launch(const Arguments& a, const SmallBatchSchedule& schedule, cudaStream_t stream) {
  auto* kernel = small_batch_kernel<Decoder, kZeros, kGroups, kDigits, kColumns>;
  using K = Kernel<Decoder, kZeros, kGroups, kDigits, kColumns>;
  Arguments fitting = a;
  const auto bytes_of = [&] {
    return K::shared_bytes(schedule.warps, fitting.stages, a.stage_tiles, fitting.kept);
  };
  while (bytes_of() > max_shared_bytes() && (fitting.stages > 2 || fitting.kept > 1)) {
    fitting.stages > 2 ? --fitting.stages : --fitting.kept;
  }
  const int bytes = bytes_of();
  allow_shared_bytes(kernel, bytes);
  launch_clusters(kernel, dim3(static_cast<unsigned>(schedule.clusters * schedule.cluster_size)),
                  dim3(static_cast<unsigned>(schedule.warps) * 32),
                  static_cast<unsigned>(schedule.cluster_size), static_cast<std::size_t>(bytes),
                  stream, fitting);
}

template <typename Decoder, bool kZeros, int kGroups>
void dispatch(const Arguments& a, int digits, const SmallBatchSchedule& schedule,
              cudaStream_t stream) {
  const int columns = (a.m * digits + 7) / 8;
  if (digits == 2) {
    return columns <= 1   ? launch<Decoder, kZeros, kGroups, 2, 1>(a, schedule, stream)
           : columns <= 2 ? launch<Decoder, kZeros, kGroups, 2, 2>(a, schedule, stream)
                          : launch<Decoder, kZeros, kGroups, 2, 4>(a, schedule, stream);
  }
  return columns <= 1   ? launch<Decoder, kZeros, kGroups, 1, 1>(a, schedule, stream)
         : columns <= 2 ? launch<Decoder, kZeros, kGroups, 1, 2>(a, schedule, stream)
                        : launch<Decoder, kZeros, kGroups, 1, 4>(a, schedule, stream);
}

}  // namespace

void launch_small_batch(const SmallBatchArguments& a, CodeKind codes, std::int64_t groups,
                        int digits, const SmallBatchSchedule& schedule, cudaStream_t stream) {
  const auto with = [&]<typename Decoder, bool kZeros>() {
    groups == 1 ? dispatch<Decoder, kZeros, 1>(a, digits, schedule, stream)
                : dispatch<Decoder, kZeros, 4>(a, digits, schedule, stream);
  };
  switch (codes) {
    case CodeKind::kInt4:
      return with.template operator()<Int4Decoder, false>();
    case CodeKind::kInt4WithZeros:
      return with.template operator()<Int4Decoder, true>();
    case CodeKind::kInt8:
      return with.template operator()<Int8Decoder, false>();
    case CodeKind::kInt8WithZeros:
      return with.template operator()<Int8Decoder, true>();
    case CodeKind::kBook:
      return with.template operator()<BookDecoder, false>();
  }
}

}  // namespace nibble::ops::cuda
