#include <limits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "device/cuda/blocks.h"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/elementwise/checks.h"
#include "ops/cuda/elementwise/elementwise.h"
#include "ops/cuda/elementwise/half_values.cuh"

/// Operators that move or add rows. One block has up to kThreads * kEach columns of a row.
namespace nibble::ops::cuda {
namespace {

using device::cuda::blocks_for;

constexpr unsigned kThreads = 256;
constexpr std::int64_t kEach = 4;
constexpr std::int64_t kMostBlocks = 132 * 16;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct ColumnWalk {
  std::int64_t first;
  std::int64_t end;
  // body(column) for this thread's columns, kThreads apart.
  template <typename Body>
  __device__ void operator()(const Body& body) const {
#pragma unroll
    for (std::int64_t i = 0; i < kEach; ++i) {
      const std::int64_t column = first + i * kThreads;
      if (column < end) {
        body(column);
      }
    }
  }
};

__device__ ColumnWalk columns_of_block(std::int64_t columns) {
  return {static_cast<std::int64_t>(blockIdx.y) * kThreads * kEach + threadIdx.x, columns};
}

dim3 grid_of(std::int64_t m, std::int64_t columns) {
  const std::int64_t part = kThreads * kEach;
  return {static_cast<unsigned>(m), static_cast<unsigned>((columns + part - 1) / part)};
}

template <typename T, typename Values, bool kAdd>
__global__ void __launch_bounds__(kThreads)
    table_kernel(const T* table, std::int64_t table_rows, const std::int32_t* ids,
                 std::int64_t offset, float outside, Values x, std::int64_t columns) {
  launch_dependents();
  wait_for_predecessor();
  const std::int64_t row = ids[blockIdx.x] + offset;
  const bool inside = row >= 0 && row < table_rows;
  const std::int64_t to = blockIdx.x * columns;
  columns_of_block(columns)([&](std::int64_t column) {
    const float value = inside ? static_cast<float>(table[row * columns + column]) : outside;
    x.write(to + column, kAdd ? x.read(to + column) + value : value);
  });
}

template <bool kAdd>
void read_table(const EmbeddingTable& table, const std::int32_t* ids, std::int64_t offset,
                float outside, const MutableMatrixView& x, std::int64_t m, cudaStream_t stream) {
  if (m == 0) {
    return;
  }
  const auto run = [&]<typename T>(const T* data) {
    with_values(x, [&]<typename Values>(const Values& values) {
      launch_dependent(table_kernel<T, Values, kAdd>, grid_of(m, table.columns), dim3(kThreads), 0,
                       stream, data, table.rows, ids, offset, outside, values, table.columns);
    });
  };
  switch (table.type) {
    case core::DType::kF32:
      return run(static_cast<const float*>(table.data));
    case core::DType::kF16:
      return run(static_cast<const __half*>(table.data));
    case core::DType::kBF16:
      return run(static_cast<const __nv_bfloat16*>(table.data));
    default:
      refuse_table(table.type);
  }
}

__global__ void __launch_bounds__(kThreads)
    add_vectors_kernel(float4* x, const float4* delta, std::int64_t count) {
  launch_dependents();
  wait_for_predecessor();
  for (std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    const float4 a = x[i];
    const float4 b = delta[i];
    x[i] = {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
  }
}

template <typename Values>
__global__ void __launch_bounds__(kThreads) add_kernel(Values x, Values delta, std::int64_t count) {
  launch_dependents();
  wait_for_predecessor();
  for (std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    x.write(i, x.read(i) + delta.read(i));
  }
}

__global__ void __launch_bounds__(kThreads)
    add_bias_kernel(float* y, const float* bias, std::int64_t columns, std::int64_t first,
                    std::int64_t n) {
  launch_dependents();
  wait_for_predecessor();
  float* to = y + blockIdx.x * columns + first;
  columns_of_block(n)([&](std::int64_t column) { to[column] += bias[column]; });
}

template <typename Values>
__global__ void __launch_bounds__(kThreads)
    gather_kernel(Values x, std::int64_t x_rows, std::int64_t columns, const std::int32_t* rows,
                  float* y) {
  launch_dependents();
  wait_for_predecessor();
  const std::int64_t row = rows[blockIdx.x];
  const bool inside = row >= 0 && row < x_rows;
  float* to = y + blockIdx.x * columns;
  columns_of_block(columns)(
      [&](std::int64_t column) { to[column] = inside ? x.read(row * columns + column) : kNan; });
}

__global__ void __launch_bounds__(kThreads)
    scatter_add_kernel(float* sum, std::int64_t sum_rows, std::int64_t columns, const float* x,
                       const std::int32_t* rows, const float* weights) {
  launch_dependents();
  wait_for_predecessor();
  const std::int64_t row = rows[blockIdx.x];
  if (row < 0 || row >= sum_rows) {
    return;
  }
  const float weight = weights[blockIdx.x];
  const float* from = x + blockIdx.x * columns;
  float* to = sum + row * columns;
  columns_of_block(columns)(
      [&](std::int64_t column) { to[column] = fmaf(weight, from[column], to[column]); });
}

bool in_vectors(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % sizeof(float4) == 0;
}

}  // namespace

void embed(const EmbeddingTable& table, const std::int32_t* ids, std::int64_t offset,
           const MutableMatrixView& x, std::int64_t m, cudaStream_t stream) {
  read_table<false>(table, ids, offset, kNan, x, m, stream);
}

void embed_part(const EmbeddingTable& table, const std::int32_t* ids, std::int64_t first, float* x,
                std::int64_t m, cudaStream_t stream) {
  read_table<false>(table, ids, -first, 0.0f, x, m, stream);
}

void add_rows(const EmbeddingTable& table, const std::int32_t* ids, std::int64_t offset,
              const MutableMatrixView& x, std::int64_t m, cudaStream_t stream) {
  read_table<true>(table, ids, offset, kNan, x, m, stream);
}

void add(const MutableMatrixView& x, const MatrixView& delta, std::int64_t count,
         cudaStream_t stream) {
  check_types(x, delta);
  if (count == 0) {
    return;
  }
  if (!x.half && count % 4 == 0 && in_vectors(x.data) && in_vectors(delta.data)) {
    return launch_dependent(add_vectors_kernel, dim3(blocks_for(count / 4, kThreads, kMostBlocks)),
                            dim3(kThreads), 0, stream, static_cast<float4*>(x.data),
                            static_cast<const float4*>(delta.data), count / 4);
  }
  with_values(x, [&]<typename Values>(const Values& sum) {
    with_values(delta, [&]<typename Delta>(const Delta& other) {
      if constexpr (std::is_same_v<Values, Delta>) {
        launch_dependent(add_kernel<Values>, dim3(blocks_for(count, kThreads, kMostBlocks)),
                         dim3(kThreads), 0, stream, sum, other, count);
      }
    });
  });
}

void add_bias(float* y, const float* bias, std::int64_t m, std::int64_t columns,
              std::int64_t column, std::int64_t n, cudaStream_t stream) {
  if (m > 0 && n > 0) {
    launch_dependent(add_bias_kernel, grid_of(m, n), dim3(kThreads), 0, stream, y, bias, columns,
                     column, n);
  }
}

void zeros(float* x, std::int64_t count, cudaStream_t stream) {
  device::cuda::check(
      cudaMemsetAsync(x, 0, static_cast<std::size_t>(count) * sizeof(float), stream),
      "cudaMemsetAsync");
}

void gather(const MatrixView& x, std::int64_t x_rows, std::int64_t columns,
            const std::int32_t* rows, float* y, std::int64_t m, cudaStream_t stream) {
  if (m == 0) {
    return;
  }
  with_values(x, [&]<typename Values>(const Values& values) {
    launch_dependent(gather_kernel<Values>, grid_of(m, columns), dim3(kThreads), 0, stream, values,
                     x_rows, columns, rows, y);
  });
}

void scatter_add(float* sum, std::int64_t sum_rows, std::int64_t columns, const float* x,
                 const std::int32_t* rows, const float* weights, std::int64_t m,
                 cudaStream_t stream) {
  if (m > 0) {
    launch_dependent(scatter_add_kernel, grid_of(m, columns), dim3(kThreads), 0, stream, sum,
                     sum_rows, columns, x, rows, weights);
  }
}

}  // namespace nibble::ops::cuda
