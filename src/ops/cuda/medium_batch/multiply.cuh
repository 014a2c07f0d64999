#pragma once

#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "ops/cuda/device_code/add_in_memory.cuh"
#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/device_code/wgmma.cuh"
#include "ops/cuda/gemm/store_tile.cuh"
#include "ops/cuda/medium_batch/decoders.cuh"
#include "ops/cuda/medium_batch/shape.cuh"

namespace nibble::ops::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// What the multiplying warps do.
template <class Shape>
struct MediumBatchMultiply : MediumBatchStages<Shape> {
  using Decoder = typename Shape::Decoder;
  using Stages = MediumBatchStages<Shape>;
  using Stages::a, Stages::advance, Stages::begin, Stages::end, Stages::lane, Stages::rank,
      Stages::row_group;
  using typename Stages::Place;
  static constexpr int kDigits = Shape::kDigits;
  static constexpr int kSums = Shape::kSums;
  static constexpr int kTotals = Shape::kTotals;
  static constexpr int kSlices = Shape::kSlices;
  static constexpr int kShare = Shape::kShare;
  static constexpr int kScales = Shape::kScales;
  static constexpr int kSteps = Shape::kSteps;

  __device__ explicit MediumBatchMultiply(const Stages& stages) : Stages(stages) {}

  __device__ void run() const {
    const auto share = this->share();
    Place first = this->first_place();
    std::uint32_t parity = 0;
#pragma unroll 1
    for (int tile = share.begin; tile < share.end; tile += Shape::kTiles) {
      Place place = first;
      advance(place, slice());
      advance(first, end() - begin());
      const bool there = tile + slot() < share.end;
      float totals[kTotals] = {};
      multiply_rows(totals, place, tile + slot(), there);
      const int row = (tile + slot()) * static_cast<int>(kTileRows);
      if constexpr (Shape::kPartners == 1) {
        store(totals, 0, row, there);
      } else {
        if (Shape::kCluster > 1 && tile == share.begin) {
          wait_for_cluster();  // now others may be written to
        }
        store_share(totals, row, there, parity, tile + Shape::kTiles < share.end);
        parity ^= 1;
      }
    }
  }

 private:
  __device__ static int warp() {
    return static_cast<int>(threadIdx.x) / 32;
  }
  __device__ static int warpgroup() {
    return warp() / 4;
  }
  __device__ static int slice() {
    return warpgroup() % kSlices;
  }
  /// Of the tiles of a stage, this warp's.
  __device__ static int slot() {
    return row_group() * 4 + warp() % 4;
  }

  /// Whether total i of a lane is of row g + 8 (wgmma.cuh).
  __device__ static constexpr bool is_upper(int i) {
    return kDigits == 2 ? i % 2 == 1 : i / 2 % 2 == 1;
  }

  // While the products of a unit run, the weights of the next one are decoded.
  __device__ void multiply_rows(float (&totals)[kTotals], Place& place, int tile,
                                bool there) const {
    typename Decoder::Rows rows{};
    if constexpr (Decoder::kHasTable) {
      if (there) {
        const auto* tables = reinterpret_cast<const uint4*>(a.tables) + tile * 16 + lane() / 4;
        rows = Decoder::rows_of(tables[0], tables[8]);
      }
    }
    // By shuffles, so that the compiler knows that they are a warp's, and keeps uniform registers.
    int left_units = __shfl_sync(~0u, (end() - begin() - slice() + kSlices - 1) / kSlices, 0);
    place.at = __shfl_sync(~0u, place.at, 0);
    place.parity = __shfl_sync(~0u, place.parity, 0);
    if (left_units <= 0) {
      return;
    }
    std::uint32_t left[2][kSteps][4];
    wait_barrier(place.full(), place.parity);
    decode(left[0], rows, place);
#pragma unroll 1
    while (true) {
      multiply_unit(totals, left[0], left[1], rows, place, left_units);
      if (left_units == 0) {
        return;
      }
      multiply_unit(totals, left[1], left[0], rows, place, left_units);
      if (left_units == 0) {
        return;
      }
    }
  }

  __device__ void decode(std::uint32_t (&left)[kSteps][4], const typename Decoder::Rows& rows,
                         const Place& place) const {
    const std::uint32_t tile = tile_of(place);
    const auto words = Decoder::Words::load_shared(tile, lane());
    const std::uint32_t zeros = Decoder::kZeros ? zeros_of_rows(tile) : 0u;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      Decoder::decode(words, step, rows, zeros, left[step]);
    }
  }

  __device__ void multiply_unit(float (&totals)[kTotals], std::uint32_t (&left)[kSteps][4],
                                std::uint32_t (&next_left)[kSteps][4],
                                const typename Decoder::Rows& rows, Place& place,
                                int& left_units) const {
    typename Shape::Sum sums[kSums];
#pragma unroll
    for (int i = 0; i < 4 * kSteps; ++i) {
      settle(left[i / 4][i % 4]);
    }
    const std::uint64_t right = describe_operand(place.inputs());
    if constexpr (Shape::kHasSums) {
      load_sums(sums, place);
    }
    begin_products();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      multiply(sums, left[step], right + step / 4 * (Shape::kBoxBytes / 16) + step % 4 * 2,
               Shape::kHasSums || step > 0);
    }
    commit_products();
    // After the last unit that is the same one, whose weights are decoded again and not used.
    Place next = place;
    if (--left_units > 0) {
      this->step(next, kSlices);
    }
    wait_barrier(next.full(), next.parity);
    decode(next_left, rows, next);
    const float2 row_scales = scales_of_rows(tile_of(place));
    float x_scales[kScales + 1] = {};
    load_scales(x_scales, place);
    wait_products<0>();
    settle_all(sums);
    release(place, bits_of_any(row_scales) | (Shape::kHasScales ? bits_of_any(x_scales) : 0));
#pragma unroll
    for (int i = 0; i < kTotals; ++i) {
      const auto sum = kDigits == 2 ? 255 * sums[2 * i] + sums[2 * i + 1] : sums[i];
      float scale = is_upper(i) ? row_scales.y : row_scales.x;
      if constexpr (Shape::kHasScales) {
        scale *= x_scales[this->scale_of(i)];
      }
      totals[i] = fmaf(static_cast<float>(sum), scale, totals[i]);
    }
    place = next;
  }

  __device__ static std::uint32_t tile_of(const Place& place) {
    return place.tiles() + slot() * Decoder::kTileBytes;
  }
  /// What is too much in products of codes, less than nothing, for them to be added to.
  __device__ static void load_sums(float (&sums)[kSums], const Place& place) {
#pragma unroll
    for (int s = 0; s < kSums; s += 4) {
      asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(sums[s]), "=f"(sums[s + 1]), "=f"(sums[s + 2]), "=f"(sums[s + 3])
                   : "r"(place.extras() + (s + lane() % 4) * 16));
    }
  }
  /// Of this lane's tokens.
  __device__ static void load_scales(float (&scales)[kScales + 1], const Place& place) {
#pragma unroll
    for (int s = 0; s < kScales; s += 4) {
      asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(scales[s]), "=f"(scales[s + 1]), "=f"(scales[s + 2]), "=f"(scales[s + 3])
                   : "r"(place.extras() + (lane() % 4 * kScales + s) * 4));
    }
  }
  __device__ static float2 scales_of_rows(std::uint32_t tile) {
    std::uint32_t bits;
    asm volatile("ld.shared.u32 %0, [%1];"
                 : "=r"(bits)
                 : "r"(tile + Decoder::kCodeBytes + lane() / 4 * 4));
    const float2 both = __half22float2(*reinterpret_cast<const __half2*>(&bits));
    return both;
  }
  __device__ static std::uint32_t zeros_of_rows(std::uint32_t tile) {
    std::uint16_t bits;
    asm volatile("ld.shared.u16 %0, [%1];"
                 : "=h"(bits)
                 : "r"(tile + Decoder::kCodeBytes + 32 + lane() / 4 * 2));
    return bits;
  }

  __device__ void release(const Place& place, std::uint32_t read) const {
    __syncwarp();
    if (lane() == 0) {
      arrive(after_reads(place.empty(), read, a.tokens));
    }
  }

  // Sends each partner the totals of its share, and adds up this one's.
  __device__ void store_share(const float (&totals)[kTotals], int row, bool there,
                              std::uint32_t parity, bool more) const {
    const int partner = rank() * kSlices + slice();
    const int thread = static_cast<int>(threadIdx.x) % 128;
    wait_barrier_of_cluster(this->totals_empty(row_group()), parity ^ 1);
    const std::uint32_t mine = totals_of(row_group() * kSlices, partner) + thread * 4;
#pragma unroll
    for (int to = 0; to < Shape::kCluster; ++to) {
      const std::uint32_t remote = Shape::kCluster == 1 ? mine : address_in(mine, to);
#pragma unroll
      for (int i = 0; i < kSlices * kShare; ++i) {
        store_in_cluster(remote + (i / kShare * Shape::kTotalBytes + i % kShare * 512),
                         __float_as_uint(totals[to * kSlices * kShare + i]));
      }
    }
    __syncwarp();
    if (lane() < Shape::kCluster) {
      arrive_after_writes_at(this->totals_full(row_group()), lane());
    }
    wait_barrier_of_cluster(this->totals_full(row_group()), parity);
    float shares[kShare] = {};
#pragma unroll
    for (int from = 0; from < Shape::kPartners; ++from) {
#pragma unroll
      for (int i = 0; i < kShare; ++i) {
        float total;
        asm volatile("ld.shared.f32 %0, [%1];"
                     : "=f"(total)
                     : "r"(totals_of(warpgroup(), from) + (i * 128 + thread) * 4)
                     : "memory");
        shares[i] += total;
      }
    }
    if (more) {  // else the other blocks may be gone
      __syncwarp();
      if (lane() < Shape::kCluster) {
        arrive_after_writes_at(this->totals_empty(row_group()), lane());
      }
    }
    store(shares, partner * kShare, row, there);
  }

  // Where partner `from` leaves its totals for a warpgroup of a block.
  __device__ std::uint32_t totals_of(int of_warpgroup, int from) const {
    return this->memory + kLayout<Shape>.totals + of_warpgroup * Shape::kTotalBytes +
           from * kShare * 512;
  }

  /// Totals number first, first + 1, ... of all.
  template <int kCount>
  __device__ void store(const float (&totals)[kCount], int first, int first_row, bool there) const {
    if (a.output.y == nullptr) {
      if constexpr (Shape::kHalf && kCount % 4 == 0) {
        const TileStore<2 * kCount, MediumBatchArguments, false> to{a, there ? first_row : a.rows,
                                                                    2 * first};
        return to.store([](int) { return 1.0f; },
                        [&](int i, int r, float) { return totals[i] * unit_of(r == 1); });
      } else {
        return store_halves(totals, first, first_row, there);
      }
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      each_result(first + i, first_row, there, [&](int row, int token) {
        const float y = finished(totals[i], first + i, row, token);
        float* const to = a.output.y + token * a.output.stride + row;
        if (a.output.adds) {
          add_in_memory(to, y);
        } else {
          *to = y;
        }
      });
    }
  }

  /// One by one, as float16. Registers have no index: in the loop, which keeps the code of
  /// activations short, the rest of them moves up.
  template <int kCount>
  __device__ void store_halves(const float (&totals)[kCount], int first, int first_row,
                               bool there) const {
    constexpr int kStep = kCount % 4 == 0 ? 4 : kCount;
    float rest[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      rest[i] = totals[i];
    }
#pragma unroll 1
    for (int done = 0; done < kCount; done += kStep) {
#pragma unroll
      for (int i = 0; i < kStep; ++i) {
        const int number = first + done + i;
        each_result(number, first_row, there, [&](int row, int token) {
          put_half(a.output.half, token, row, finished(rest[i], number, row, token));
        });
      }
#pragma unroll
      for (int i = 0; i + kStep < kCount; ++i) {
        rest[i] = rest[i + kStep];
      }
    }
  }

  __device__ static constexpr float unit_of(bool upper) {
    return upper ? Decoder::kUpperUnit : Decoder::kUnit;
  }

  /// Calls put(row, token) for total number i, if there is such a result.
  template <class Put>
  __device__ void each_result(int i, int first_row, bool there, Put&& put) const {
    const int row = first_row + (is_upper(i) ? 8 : 0) + lane() / 4;
    const int token = this->token_of(i, lane() % 4);
    if (there && row < a.rows && token < a.tokens) {
      put(row, token);
    }
  }

  /// What becomes of it: in the steps of TileStore.
  __device__ float finished(float total, int i, int row, int token) const {
    float y = total * unit_of(is_upper(i));
    if constexpr (!Shape::kHalf && Shape::kScaleOfToken) {
      y *= a.scales[token];
    }
    const float factor = a.factors == nullptr ? 1.0f : a.factors[row];
    const float bias = a.output.bias == nullptr ? 0.0f : a.output.bias[row];
    return __fadd_rn(__fmul_rn(y, factor), bias);
  }
};

#endif

}  // namespace nibble::ops::cuda
