#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/elementwise/digit_sink.cuh"
#include "ops/cuda/elementwise/row_norm.cuh"
#include "ops/cuda/elementwise/row_sinks.cuh"
#include "ops/cuda/small_batch/inputs.cuh"
#include "ops/cuda/small_batch/launch.h"

/// Rows of float32 of which the layer itself makes its inputs: each thread block for itself, in its
/// shared memory, with the bits of norm() (elementwise.h), or of what ordered_rows.h makes. A warp
/// has chunks of 128 inputs, of which each lane reads what it copied itself, until all have come
/// that an order looks for.
namespace nibble::ops::cuda {

/// kHolds: few chunks of few rows stay in registers on their way, unless an order looks for others'
/// values.
template <bool kHolds>
class FloatInputs {
 public:
  /// Shared memory for m rows of so many chunks.
  __host__ __device__ static constexpr int bytes(int m, int blocks, bool ordered = false) {
    constexpr int kWord = static_cast<int>(sizeof(float));
    return blocks * kChunk * kWord + order_bytes(blocks, ordered) +
           m * blocks * (kChunk * kWord + 2 * kChunk + 3 * kWord);
  }

  /// Begins to copy the weights of the norm, and the order, for m rows or none. `thread` is one of
  /// warps * 32.
  __device__ FloatInputs(const RowsToRound& rows, int m, int blocks, std::byte* memory, int thread,
                         int warps)
      : rows_(rows),
        m_(m),
        blocks_(blocks),
        weights_(reinterpret_cast<float*>(memory)),
        order_(reinterpret_cast<std::uint16_t*>(weights_ + blocks * kChunk)),
        values_(reinterpret_cast<float*>(memory +
                                         blocks * kChunk * static_cast<int>(sizeof(float)) +
                                         order_bytes(blocks, rows.order != nullptr))),
        codes_(reinterpret_cast<std::int8_t*>(values_ + m * blocks * kChunk)),
        scales_(reinterpret_cast<float*>(codes_ + m * blocks * 2 * kChunk)),
        squares_(scales_ + m * blocks),
        magnitudes_(reinterpret_cast<std::int32_t*>(squares_ + m * blocks)),
        warp_(thread / kWarp),
        warps_(warps),
        lane_(thread % kWarp) {
    if (holds()) {
      each_held([&](int i, int block) {
        if (rows.weight != nullptr && column(block) < rows.columns) {
          held_weight_[i] = __ldg(reinterpret_cast<const float4*>(rows.weight + column(block)));
        }
      });
      return;
    }
    if (m > 0 && rows.weight != nullptr) {
      for (int block = warp_; block < blocks; block += warps) {
        copy(weights_, rows.weight, column(block));
      }
    }
    if (m > 0 && rows.order != nullptr) {
      for (int block = warp_; block < blocks; block += warps) {
        copy_order(column(block));
      }
    }
  }

  /// Begins to copy the rows.
  __device__ void read() {
    if (holds()) {
#pragma unroll
      for (int row = 0; row < kHeldRows; ++row) {
        if (row < m_) {
          each_held([&](int i, int block) {
            if (column(block) < rows_.columns) {
              held_[row][i] = __ldcg(reinterpret_cast<const float4*>(
                  rows_.x + static_cast<std::size_t>(row) * rows_.columns + column(block)));
            }
          });
        }
      }
      return;
    }
    for (int row = 0; row < m_; ++row) {
      for (int block = warp_; block < blocks_; block += warps_) {
        copy(values_ + row * blocks_ * kChunk,
             rows_.x + static_cast<std::size_t>(row) * rows_.columns, column(block));
      }
    }
  }

  /// After read(); all threads of the block call together. Two digits have a scale for each chunk,
  /// one digit has one for its token. kAtOnce: chunks that a warp has side by side.
  template <int kDigits = 2, int kAtOnce = 3>
  __device__ InputCodes make() const {
    if constexpr (kHolds) {
      static_assert(kDigits == 2);  // rows that are held are in registers alone
      if (holds()) {
        return make_of_held();
      }
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    if (rows_.weight != nullptr) {
      add_squares<kAtOnce>();
    }
    __syncthreads();
    const IntegerSink sink{
        {.form = InputForm::kInt8Lanes,
         .codes = codes_,
         .scales = scales_,
         .bits = kDigits == 2 ? 16 : 8,
         .clip = rows_.clip,
         .type = nullptr},  // only those who choose a sink ask for it, on the host
        blocks_ * kChunk,
        rows_.columns};
    if constexpr (kDigits == 2) {
      each_chunks<kAtOnce>([&](int row, const int(&blocks)[kAtOnce]) {
        const Normalizer numbers = normalizer(row);
        float4 values[kAtOnce];
        Coder coders[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          values[i] = input_value(numbers, row, present(blocks, i));
          coders[i] = wide_coder(lanes_max(sink.spread_of(values[i]).magnitude, kWarp));
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          if (blocks[i] < blocks_) {
            sink.store_codes(row, column(blocks[i]), values[i], coders[i]);
            if (lane_ == 0) {
              sink.store_scale(row * blocks_ + blocks[i], coders[i]);
            }
          }
        }
      });
    } else {
      each_chunks<1>([&](int row, const int(&of)[1]) {
        const int block = of[0];
        const float4 input = input_value(normalizer(row), row, block);
        const std::int32_t magnitude = lanes_max(sink.spread_of(input).magnitude, kWarp);
        if (lane_ == 0) {
          magnitudes_[row * blocks_ + block] = magnitude;
        }
      });
      __syncthreads();
      each_chunks<1>([&](int row, const int(&of)[1]) {
        const int block = of[0];
        const Coder coder = sink.coder({largest_magnitude(row), 0, 0});
        sink.store_codes(row, column(block), input_value(normalizer(row), row, block), coder);
        if (block == 0 && lane_ == 0) {
          sink.store_scale(row, coder);
        }
      });
    }
    __syncthreads();
    return {codes_, scales_, m_, blocks_, kDigits == 2 ? blocks_ : 1};
  }

 private:
  // Rows and chunks that a warp holds at the most.
  static constexpr int kHeldRows = 4;
  static constexpr int kHeldChunks = 3;

  __device__ bool holds() const {
    return kHolds && rows_.order == nullptr && m_ <= kHeldRows && blocks_ <= kHeldChunks * warps_;
  }
  /// Calls body(i, chunk) for the chunks that the warp holds.
  template <typename Body>
  __device__ void each_held(const Body& body) const {
#pragma unroll
    for (int i = 0; i < kHeldChunks; ++i) {
      const int block = warp_ + i * warps_;
      if (block < blocks_) {
        body(i, block);
      }
    }
  }
  /// make() of two digits, of rows in registers.
  __device__ InputCodes make_of_held() const {
    const bool normed = rows_.weight != nullptr;
    if (normed) {
#pragma unroll
      for (int row = 0; row < kHeldRows; ++row) {
        if (row < m_) {
          float sums[kHeldChunks];
#pragma unroll
          for (int i = 0; i < kHeldChunks; ++i) {
            sums[i] = warp_sum(squares(held_[row][i]));
          }
          if (lane_ == 0) {
            each_held([&](int i, int block) { squares_[row * blocks_ + block] = sums[i]; });
          }
        }
      }
      __syncthreads();
    }
    const DigitSink sink{codes_, scales_, blocks_ * kChunk, true};
#pragma unroll
    for (int row = 0; row < kHeldRows; ++row) {
      if (row < m_) {
        const Normalizer numbers = normalizer(row);
        float4 values[kHeldChunks];
        Coder coders[kHeldChunks];
#pragma unroll
        for (int i = 0; i < kHeldChunks; ++i) {
          values[i] =
              normed ? normalized(numbers, held_[row][i], held_weight_[i], {}) : held_[row][i];
          coders[i] = sink.coder_of_warp(values[i]);
        }
        each_held([&](int i, int block) {
          sink.put_codes(row, column(block), values[i], coders[i]);
          if (lane_ == 0) {
            sink.store_scale(row * blocks_ + block, coders[i]);
          }
        });
      }
    }
    __syncthreads();
    return {codes_, scales_, m_, blocks_, blocks_};
  }

  __host__ __device__ static constexpr int order_bytes(int blocks, bool ordered) {
    return ordered ? blocks * kChunk * static_cast<int>(sizeof(std::uint16_t)) : 0;
  }

  /// Of each chunk, in the order in which the row lies.
  template <int kAtOnce>
  __device__ void add_squares() const {
    each_chunks<kAtOnce>([&](int row, const int(&blocks)[kAtOnce]) {
      float sums[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        sums[i] = warp_sum(squares(value(row, present(blocks, i))));
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (lane_ == 0 && blocks[i] < blocks_) {
          squares_[row * blocks_ + blocks[i]] = sums[i];
        }
      }
    });
  }
  __device__ Normalizer normalizer(int row) const {
    if (rows_.weight == nullptr) {
      return {};
    }
    const float sum = sum_of_chunks(squares_ + row * blocks_, blocks_);
    return {0.0f, rms_factor(sum, static_cast<float>(rows_.columns), rows_.eps)};
  }
  /// Four inputs as the layer reads them.
  __device__ float4 input_value(const Normalizer& numbers, int row, int block) const {
    float4 x;
    float4 weight;
    if (rows_.order == nullptr) {
      x = value(row, block);
      weight = *reinterpret_cast<const float4*>(weights_ + column(block));
    } else {
      const ushort4 from = *reinterpret_cast<const ushort4*>(order_ + column(block));
      const auto at = [&](const float* values) {
        return float4{values[from.x], values[from.y], values[from.z], values[from.w]};
      };
      x = at(values_ + row * blocks_ * kChunk);
      weight = at(weights_);
    }
    return rows_.weight == nullptr ? x : normalized(numbers, x, weight, {});
  }
  /// Of a row's chunks.
  __device__ std::int32_t largest_magnitude(int row) const {
    std::int32_t largest = 0;
    for (int block = lane_; block < blocks_; block += kWarp) {
      largest = max(largest, magnitudes_[row * blocks_ + block]);
    }
    return lanes_max(largest, kWarp);
  }

  /// Four columns of a row, a multiple of four; zeros past its end.
  __device__ void copy(float* to, const float* row, int column) const {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to + column)),
                 "l"(row + min(column, rows_.columns - 4)), "r"(column < rows_.columns ? 16 : 0)
                 : "memory");
  }

  /// Four places of the order, which goes on behind the row's end.
  __device__ void copy_order(int column) const {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared_address(order_ + column)),
                 "l"(rows_.order + column)
                 : "memory");
  }

  /// One of the warp's own in the place of blocks behind the last.
  template <int kAtOnce>
  __device__ int present(const int (&blocks)[kAtOnce], int i) const {
    return blocks[i] < blocks_ ? blocks[i] : blocks[0];
  }
  /// Of a block, the lane's first.
  __device__ int column(int block) const {
    return block * kChunk + lane_ * 4;
  }
  __device__ float4 value(int row, int block) const {
    return *reinterpret_cast<const float4*>(values_ + row * blocks_ * kChunk + column(block));
  }

  /// Calls body(row, blocks) for the warp's chunks, several side by side; blocks may lie behind the
  /// last.
  template <int kAtOnce, typename Body>
  __device__ void each_chunks(const Body& body) const {
    for (int row = 0; row < m_; ++row) {
      for (int block = warp_; block < blocks_; block += kAtOnce * warps_) {
        int blocks[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          blocks[i] = block + i * warps_;
        }
        body(row, blocks);
      }
    }
  }

  const RowsToRound& rows_;
  float4 held_[kHeldRows][kHeldChunks] = {};
  float4 held_weight_[kHeldChunks] = {};
  int m_;
  int blocks_;
  float* weights_;
  std::uint16_t* order_;
  float* values_;
  std::int8_t* codes_;
  float* scales_;
  float* squares_;
  std::int32_t* magnitudes_;  // of one digit
  int warp_;
  int warps_;
  int lane_;
};

}  // namespace nibble::ops::cuda
