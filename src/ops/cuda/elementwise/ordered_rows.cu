#include <algorithm>
#include <type_traits>

#include "ops/cuda/elementwise/ordered_rows.h"
#include "ops/cuda/elementwise/row_kernel.cuh"

namespace nibble::ops::cuda {
namespace {

constexpr int kSharedBeside = 8 * 1024;  // a row: sums of chunks, spreads of warps

struct OrderedRows {
  Rows x;
  const std::uint16_t* order;
  int padded;
};

/// A row in shared memory. A thread has the same four columns each time, until in_order().
class SharedRow {
 public:
  __device__ SharedRow(const OrderedRows& rows, std::int64_t row, float* values)
      : rows_(rows), row_(row), values_(values) {}

  template <typename Body>
  __device__ void read(int end, const Body& body) {
    walk(end, [&](int column) {
      const float4 x = rows_.x.load(row_, column);
      *place(column) = x;
      body(column, x);
    });
  }
  template <typename Body>
  __device__ void each(int end, const Body& body) const {
    walk(end, [&](int column) { body(column, *place(column)); });
  }
  /// Replaces each value by body(column, value).
  template <typename Body>
  __device__ void change(const Body& body) {
    walk(rows_.padded, [&](int column) { *place(column) = body(column, *place(column)); });
  }
  /// When all threads have done the above.
  template <typename Body>
  __device__ void in_order(const Body& body) const {
    walk(rows_.padded, [&](int column) {
      const ushort4 from = *reinterpret_cast<const ushort4*>(rows_.order + column);
      body(column, float4{values_[from.x], values_[from.y], values_[from.z], values_[from.w]});
    });
  }

 private:
  // All lanes of a warp take part in each step; padded rows are whole warps of vectors.
  template <typename Body>
  __device__ static void walk(int end, const Body& body) {
    for (int column = static_cast<int>(threadIdx.x) * 4; column < end;
         column += static_cast<int>(blockDim.x) * 4) {
      body(column);
    }
  }
  __device__ float4* place(int column) const { return reinterpret_cast<float4*>(values_ + column); }

  const OrderedRows& rows_;
  std::int64_t row_;
  float* values_;
};

__device__ __forceinline__ void prefetch(const void* data) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(data));
}

/// A block has a row.
template <typename Norm, typename Sink>
__global__ void __launch_bounds__(kMaxThreads)
    ordered_kernel(OrderedRows rows, Norm norm, Sink sink) {
  extern __shared__ __align__(16) float values[];
  launch_dependents();
  const std::int64_t row = blockIdx.x;
  SharedRow held(rows, row, values);
  const int first = static_cast<int>(threadIdx.x) * 4;
  prefetch(rows.order + first);  // what does not change comes while the predecessor ends
  if constexpr (std::is_same_v<Norm, NormWeights>) {
    if (first < rows.x.columns) {
      prefetch(norm.weight + first);
    }
  }
  wait_for_predecessor();
  if constexpr (std::is_same_v<Norm, NormWeights>) {
    __shared__ float sums[2 * kMaxChunks];
    const int columns = rows.x.columns;
    const Normalizer numbers = normalizer(held, norm, columns, rows.padded, sums);
    held.change(
        [&](int column, float4 x) { return normalized(norm, numbers, column, columns, x); });
  } else {
    held.read(rows.padded, [](int, float4) {});
  }
  __syncthreads();
  if constexpr (Sink::kIntegers) {
    if (sink.by_row()) {
      Spread spread;
      held.in_order([&](int, float4 x) { sink.widen_by(spread, x); });
      const Coder coder = sink.coder(block_spread(spread, sink.symmetric()));
      held.in_order([&](int column, float4 x) { sink.store_codes(row, column, x, coder); });
      if (threadIdx.x == 0) {
        sink.store_scale(row, coder);
      }
      return;
    }
  }
  if constexpr (!Sink::kByRowOnly) {
    held.in_order([&](int column, float4 x) { sink.store(row, column, x); });
  }
}

OrderedRows ordered_rows(const float* x, const std::uint16_t* order, std::int64_t columns) {
  check_columns(columns);
  check_ordered(columns);
  return {rows_of(x, columns, columns), order, static_cast<int>(padded_columns(columns))};
}

template <typename Norm, typename Sink>
void run(const OrderedRows& rows, const Norm& norm, const Sink& sink, std::int64_t m,
         cudaStream_t stream) {
  if (m == 0) {
    return;
  }
  constexpr std::int64_t kFewRows = 264;  // two for each multiprocessor of a large device
  const int most = m <= kFewRows ? kMaxThreads : kMaxThreads / 4;
  const int threads = std::min(rows.padded / 4, most);
  const int bytes = rows.padded * static_cast<int>(sizeof(float));
  auto* const kernel = ordered_kernel<Norm, Sink>;
  allow_shared_bytes(kernel, bytes + kSharedBeside);
  launch_dependent(kernel, dim3(static_cast<unsigned>(m)), dim3(static_cast<unsigned>(threads)),
                   static_cast<std::size_t>(bytes), stream, rows, norm, sink);
}

/// Into the form that the target asks for.
template <typename Norm, typename... Sinks>
void run_into(SinkList<Sinks...>, const OrderedRows& rows, const Norm& norm,
              const InputTarget& target, std::int64_t m, cudaStream_t stream) {
  const auto run_sink = [&](const auto& sink) {
    run(rows, norm, sink, m, stream);
    return true;
  };
  if (!((Sinks::serves(target) && run_sink(Sinks::of(target, rows.x.columns))) || ...)) {
    refuse_form();
  }
}

}  // namespace

std::int64_t max_ordered_columns() {
  const std::int64_t floats =
      (max_shared_bytes() - 2 * kSharedBeside) / std::int64_t{sizeof(float)};
  return std::min(floats / kInputPadding * kInputPadding, kMaxOrdered);
}

void ordered_input(const float* x, const std::uint16_t* order, const InputTarget& target,
                   std::int64_t m, std::int64_t columns, cudaStream_t stream) {
  run_into(InputSinks(), ordered_rows(x, order, columns), NoNorm{}, target, m, stream);
}

void ordered_norm(const float* x, const NormWeights& norm, const std::uint16_t* order,
                  const InputTarget& target, std::int64_t m, std::int64_t columns,
                  cudaStream_t stream) {
  check_weights(norm);
  run_into(InputSinks(), ordered_rows(x, order, columns), norm, target, m, stream);
}

void ordered_norm_matrix(const float* x, const NormWeights& norm, const std::uint16_t* order,
                         float* y, std::int64_t m, std::int64_t columns, cudaStream_t stream) {
  check_weights(norm);
  run(ordered_rows(x, order, columns), norm, matrix_sink(y, columns), m, stream);
}

}  // namespace nibble::ops::cuda
