#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/elementwise/checks.h"
#include "ops/cuda/elementwise/elementwise.h"
#include "ops/cuda/elementwise/input_sinks.cuh"
#include "ops/cuda/elementwise/row_norm.cuh"
#include "ops/cuda/elementwise/row_sinks.cuh"
#include "ops/cuda/elementwise/row_sources.cuh"

/// The kernel that all row operators are made of: source -> norm -> sink. A block has one row, or,
/// where nothing looks at whole rows, a part of one. Sums are taken over chunks of 128 columns, one
/// for each warp and step, and then over chunks: their order does not depend on the number of
/// threads.
namespace nibble::ops::cuda {

inline constexpr int kMaxThreads = 1024;
inline constexpr int kMaxChunks = static_cast<int>(kMaxColumns) / kChunk;

struct NoNorm {};

/// A value on its way to a sink that says how it holds it.
template <typename Sink>
__device__ __forceinline__ float4 held_by(const Sink& sink, float4 value) {
  if constexpr (requires { sink.held(value); }) {
    return sink.held(value);
  } else {
    return value;
  }
}

/// V times four values of a row in each thread's registers; V = 0: read again each time.
template <int V, typename Source>
class HeldRow {
 public:
  __device__ HeldRow(const Source& source, std::int64_t row, int first)
      : source_(source), row_(row), first_(first) {}

  template <typename Body>
  __device__ void read(int, const Body& body) {
    if constexpr (BegunSource<Source>) {
      const auto place = source_.place();
      typename Source::Begun begun[V];
#pragma unroll
      for (int v = 0; v < V; ++v) {
        begun[v] = source_.begin(place, row_, column(v));
      }
#pragma unroll
      for (int v = 0; v < V; ++v) {
        x_[v] = source_.finish(place, begun[v], row_, column(v));
      }
    } else {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        x_[v] = HeldValues<Source>::of(source_, row_, column(v));
      }
    }
    each(0, body);
  }
  /// Replaces each value by body(column, value).
  template <typename Body>
  __device__ void change(const Body& body) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      x_[v] = body(column(v), x_[v]);
    }
  }
  template <typename Body>
  __device__ void each(int, const Body& body) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      body(column(v), held_values(x_[v]));
    }
  }

 private:
  __device__ int column(int v) const {
    return first_ + static_cast<int>(v * blockDim.x + threadIdx.x) * 4;
  }
  const Source& source_;
  std::int64_t row_;
  int first_;
  typename HeldValues<Source>::Type x_[V];
};

template <typename Source>
class HeldRow<0, Source> {
 public:
  __device__ HeldRow(const Source& source, std::int64_t row, int) : source_(source), row_(row) {}

  template <typename Body>
  __device__ void read(int end, const Body& body) {
    walk(source_, end, body);
  }
  template <typename Body>
  __device__ void each(int end, const Body& body) {
    if constexpr (requires { source_.sum; }) {
      walk(source_.added.x, end, body);  // which holds the sum
    } else {
      walk(source_, end, body);
    }
  }

 private:
  // All lanes of a warp take part in each step.
  template <typename From, typename Body>
  __device__ void walk(const From& from, int end, const Body& body) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    for (int warp = static_cast<int>(threadIdx.x) - lane; warp * 4 < end;
         warp += static_cast<int>(blockDim.x)) {
      const int column = (warp + lane) * 4;
      body(column, from.load(row_, column));
    }
  }
  const Source& source_;
  std::int64_t row_;
};

__device__ __forceinline__ void note_chunk(float* sums, int column, float value) {
  const float sum = warp_sum(value);
  if (threadIdx.x % kWarp == 0) {
    sums[column / kChunk] = sum;
  }
}

/// sum_of_chunks() where the caller's threads have written theirs.
__device__ __forceinline__ float sum_of_block(const float* sums, int chunks) {
  __syncthreads();
  return sum_of_chunks(sums, chunks);
}

/// `sums`: shared memory for twice padded / kChunk floats.
template <typename Held>
__device__ Normalizer normalizer(Held& held, const NormWeights& norm, int columns, int padded,
                                 float* sums) {
  const int chunks = padded / kChunk;
  float* squares_of = sums + chunks;
  const auto noted = [&](float* to, int column, float value) {
    if (column / kChunk < chunks) {
      note_chunk(to, column, value);
    }
  };
  const auto n = static_cast<float>(columns);
  if (norm.kind == NormKind::kRms) {
    held.read(padded, [&](int column, float4 x) { noted(sums, column, squares(x)); });
    return {0.0f, rms_factor(sum_of_block(sums, chunks), n, norm.eps)};
  }
  held.read(padded, [&](int column, float4 x) { noted(sums, column, x.x + x.y + (x.z + x.w)); });
  const float mean = sum_of_block(sums, chunks) / n;
  held.each(padded, [&](int column, float4 x) {
    noted(squares_of, column, squares(centered(x, column, columns, mean)));
  });
  return {mean, rms_factor(sum_of_block(squares_of, chunks), n, norm.eps)};
}

/// The spread of all threads' values, on every thread; without its ends where it is symmetric.
__device__ __forceinline__ Spread block_spread(Spread spread, bool symmetric) {
  __shared__ Spread warps[kMaxThreads / kWarp];
  const auto reduce = [&](const Spread& mine) {
    Spread all;
    all.magnitude = __reduce_max_sync(kAllLanes, mine.magnitude);
    if (!symmetric) {
      all.low = __reduce_min_sync(kAllLanes, mine.low);
      all.high = __reduce_max_sync(kAllLanes, mine.high);
    }
    return all;
  };
  const Spread warp = reduce(spread);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (lane == 0) {
    warps[threadIdx.x / kWarp] = warp;
  }
  __syncthreads();
  return reduce(lane < static_cast<int>(blockDim.x) / kWarp ? warps[lane] : Spread{});
}

/// Threads of a block that leave each enough registers.
template <int V, typename Norm>
inline constexpr int kRowThreads = V >= 8 || (V == 4 && std::is_same_v<Norm, NormWeights>)
                                       ? kMaxThreads / 2
                                       : kMaxThreads;

template <int V, typename Source, typename Norm, typename Sink>
__global__ void __launch_bounds__(kRowThreads<V, Norm>)
    row_kernel(Source source, Norm norm, Sink sink, int columns, int padded) {
  launch_dependents();
  const std::int64_t row = blockIdx.x;
  const int first = static_cast<int>(blockIdx.y * V * blockDim.x * 4);
  HeldRow<V, Source> held(source, row, first);
  Normalizer numbers;
  if constexpr (std::is_same_v<Norm, NormWeights>) {
    if (V == 1 && threadIdx.x * 4 < columns) {  // the weights come while the predecessor ends
      asm volatile("prefetch.global.L1 [%0];" ::"l"(norm.weight + threadIdx.x * 4));
    }
    wait_for_predecessor();
    __shared__ float sums[2 * kMaxChunks];
    numbers = normalizer(held, norm, columns, padded, sums);
  } else {
    wait_for_predecessor();
    if constexpr (V > 0) {
      held.read(padded, [](int, float4) {});
    }
  }
  const auto normal = [&](int column, float4 x) {
    if constexpr (std::is_same_v<Norm, NormWeights>) {
      return held_by(sink, normalized(norm, numbers, column, columns, x));
    } else {
      return x;
    }
  };
  // Integers need each value twice: once for the scale and once for the code.
  constexpr bool kKept = V > 0 && Sink::kIntegers && std::is_same_v<Norm, NormWeights>;
  if constexpr (kKept) {
    held.change(normal);
  }
  const auto value = [&](int column, float4 x) { return kKept ? x : normal(column, x); };
  if constexpr (Sink::kIntegers) {
    if (sink.by_row()) {
      Spread spread;
      held.each(padded, [&](int column, float4 x) { sink.widen_by(spread, value(column, x)); });
      const Coder coder = sink.coder(block_spread(spread, sink.symmetric()));
      held.each(padded, [&](int column, float4 x) {
        sink.store_codes(row, column, value(column, x), coder);
      });
      if (threadIdx.x == 0) {
        sink.store_scale(row, coder);
      }
      return;
    }
  }
  if constexpr (!Sink::kByRowOnly) {
    held.each(padded, [&](int column, float4 x) { sink.store(row, column, value(column, x)); });
  }
}

/// Whether a thread can hold sixteen times four values.
template <typename Source, typename Norm>
inline constexpr bool kHoldsMuch = std::is_same_v<Norm, NoNorm> &&
                                   sizeof(typename HeldValues<Source>::Type) < sizeof(float4);

/// How rows are cut among blocks and threads.
struct RowLaunch {
  int held = 0;  // V
  int threads = 0;
  int parts = 1;  // blocks of a row
};

/// For what looks at four vectors at a time: parts of rows.
inline RowLaunch launch_of_parts(std::int64_t m, std::int64_t vectors) {
  constexpr std::int64_t kFewVectors = std::int64_t{1} << 17;
  const int held = m * vectors <= kFewVectors ? 1 : 4;
  const std::int64_t threads = std::min<std::int64_t>(256, vectors / held / kWarp * kWarp);
  if (threads == 0) {
    return {1, static_cast<int>(vectors), 1};
  }
  const std::int64_t part = threads * held;
  return {held, static_cast<int>(threads), static_cast<int>((vectors + part - 1) / part)};
}

/// For what looks at whole rows: few rows have many threads each, and of many rows as many as can
/// be are under way at once.
template <typename Source, typename Norm, typename Sink>
RowLaunch launch_of_rows(std::int64_t m, std::int64_t vectors) {
  constexpr std::int64_t kFewRows = 264;  // two for each multiprocessor of a large device
  const bool few = m <= kFewRows;
  const auto with = [&](int held) {
    const std::int64_t per_warp = held * std::int64_t{kWarp};
    return RowLaunch{held, static_cast<int>((vectors + per_warp - 1) / per_warp * kWarp), 1};
  };
  // Of many rows. Norms whose sink is slow have more threads.
  constexpr bool kSlow = std::is_same_v<Norm, NormWeights> && !Sink::kByRowOnly;
  if (vectors <= (few ? kMaxThreads : kSlow ? 256 : 128)) {
    return with(1);
  }
  if (vectors <= 4 * (few ? kRowThreads<4, Norm> : kSlow ? 512 : 128)) {
    return with(4);
  }
  if (kHoldsMuch<Source, Norm> && !few && vectors > 8 * 128 &&
      vectors <= 16 * kRowThreads<16, Norm>) {
    return with(16);
  }
  if (vectors <= 8 * kRowThreads<8, Norm>) {
    return with(8);
  }
  return {0, kMaxThreads, 1};
}

template <typename Source, typename Norm, typename Sink>
void run_rows(const Source& source, const Norm& norm, const Sink& sink, std::int64_t m, int columns,
              bool whole_rows, cudaStream_t stream) {
  check_columns(columns);
  if (m == 0) {
    return;
  }
  const std::int64_t padded = padded_columns(columns);
  const RowLaunch shape = whole_rows ? launch_of_rows<Source, Norm, Sink>(m, padded / 4)
                                     : launch_of_parts(m, padded / 4);
  const dim3 grid(static_cast<unsigned>(m), static_cast<unsigned>(shape.parts));
  const auto run = [&](auto kernel) {
    launch_dependent(kernel, grid, dim3(static_cast<unsigned>(shape.threads)), 0, stream, source,
                     norm, sink, static_cast<int>(columns), static_cast<int>(padded));
  };
  switch (shape.held) {
    case 1:
      return run(row_kernel<1, Source, Norm, Sink>);
    case 4:
      return run(row_kernel<4, Source, Norm, Sink>);
    case 8:
      if constexpr (Sink::kIntegers || std::is_same_v<Norm, NormWeights>) {
        return run(row_kernel<8, Source, Norm, Sink>);
      }
      break;
    case 16:
      if constexpr (Sink::kIntegers && kHoldsMuch<Source, Norm>) {
        return run(row_kernel<16, Source, Norm, Sink>);
      }
      break;
    default:
      if constexpr (Sink::kIntegers || std::is_same_v<Norm, NormWeights>) {
        return run(row_kernel<0, Source, Norm, Sink>);
      }
  }
}

/// Into the form that the target asks for, by what `behind` makes of the first sink that serves it.
template <typename Source, typename Norm, typename Behind, typename... Sinks>
void run_input_into(SinkList<Sinks...>, const Source& source, const Norm& norm,
                    const InputTarget& target, const Behind& behind, std::int64_t m,
                    std::int64_t columns, cudaStream_t stream) {
  constexpr bool kNorm = std::is_same_v<Norm, NormWeights>;
  const auto run_into = [&]<typename Sink>(const Sink& sink) {
    bool whole_rows = kNorm;
    if constexpr (Sink::kIntegers) {
      whole_rows = whole_rows || sink.by_row();
    }
    run_rows(source, norm, sink, m, columns, whole_rows, stream);
    return true;
  };
  const bool taken =
      ((Sinks::serves(target) && run_into(behind(Sinks::of(target, static_cast<int>(columns))))) ||
       ...);
  if (!taken) {
    refuse_form();
  }
}

template <typename Source, typename Norm>
void run_input(const Source& source, const Norm& norm, const InputTarget& target, std::int64_t m,
               std::int64_t columns, cudaStream_t stream) {
  const auto itself = [](const auto& sink) { return sink; };
  run_input_into(InputSinks(), source, norm, target, itself, m, columns, stream);
}

}  // namespace nibble::ops::cuda
