#pragma once

#include <cstdint>
#include <span>

#include <cuda_runtime_api.h>

#include "ops/cuda/attention/kv_pool.h"

namespace nibble::ops::cuda {

/// Page `to` gets what page `from` holds.
struct PageCopy {
  PageId from = 0;
  PageId to = 0;
};

/// Copies pages in all layers of a pool, at the same time: none is both read and written. What
/// follows in the stream finds them copied from its first instruction on. Throws kFailed for a page
/// that there is not.
void copy_pages(const KvPool& pool, std::span<const PageCopy> copies, cudaStream_t stream);

}  // namespace nibble::ops::cuda
