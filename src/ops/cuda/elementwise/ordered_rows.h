#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/elementwise/elementwise.h"

/// Rows for layers whose stored weights have their inputs in an order (ops/input_transform.h), on
/// their way to these: y[i] = x[order[i]], and y made ready as elementwise.h makes x. The bits are
/// those of the operators there, behind a change of order of its own. Rows lie in the shared memory
/// of a thread block, so that reading them in any order costs little.
namespace nibble::ops::cuda {

/// Inputs that a place of an order can name.
inline constexpr std::int64_t kMaxOrdered = 65536;

/// Columns of the longest row that a block of the current device holds.
std::int64_t max_ordered_columns();
/// Throws kUsage for longer ones, as all below do.
void check_ordered(std::int64_t columns);

/// x [m, columns] as it is, float32. `order` [padded_columns(columns)] on the device: from the last
/// column on each place names itself.
void ordered_input(const float* x, const std::uint16_t* order, const InputTarget& target,
                   std::int64_t m, std::int64_t columns, cudaStream_t stream);
/// norm(x); its weights stand in the order of x.
void ordered_norm(const float* x, const NormWeights& norm, const std::uint16_t* order,
                  const InputTarget& target, std::int64_t m, std::int64_t columns,
                  cudaStream_t stream);
/// The same as a matrix.
void ordered_norm_matrix(const float* x, const NormWeights& norm, const std::uint16_t* order,
                         float* y, std::int64_t m, std::int64_t columns, cudaStream_t stream);

}  // namespace nibble::ops::cuda
