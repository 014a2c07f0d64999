#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "compress/any4/cuda/book_kernels.h"

/// Exact weighted k-means on a line (any4/kmeans.h) for many rows at once. All pointers are of the
/// device. A row has at most kMostPoints points (cuda_book_steps.h).
namespace nibble::compress::cuda {

inline constexpr int kMostClusters = 16;

/// The points of `count` rows, [count, k] each: scaled weights and what they count. `root`: see
/// BookWeights. Points whose weight is lost in a sum of all become infinite, so that they are
/// sorted behind the others; points_of [count] says how many are left.
void scaled_points(const BookLayer& layer, const std::int64_t* rows, std::int64_t count, bool root,
                   float* values, float* weights, std::int32_t* points_of, cudaStream_t stream);

/// Rows of `values` in ascending order, `weights` along with them. With `workspace` null only
/// tells in workspace_bytes what it needs.
void sort_points(const float* values, const float* weights, float* sorted_values,
                 float* sorted_weights, std::int64_t count, std::int64_t k, void* workspace,
                 std::size_t& workspace_bytes, cudaStream_t stream);

/// Blocks that work at a time, and the bytes of workspace that one of them needs.
std::int64_t kmeans_blocks(std::int64_t rows, int multiprocessors);
std::int64_t kmeans_block_bytes(std::int64_t k, int clusters);

/// books [count, clusters]: the centres of each row's sorted points, ascending; a book of zeros
/// ends in 1. `workspace` has room for `blocks` blocks.
void kmeans(const float* values, const float* weights, const std::int32_t* points_of,
            std::int64_t count, std::int64_t k, int clusters, std::byte* workspace,
            std::int64_t blocks, float* books, cudaStream_t stream);

}  // namespace nibble::compress::cuda
