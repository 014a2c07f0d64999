#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cuda_runtime_api.h>

#include "ops/cuda/attention/kv_pool.h"

namespace nibble::ops::cuda {

/// A page of a pool, and pinned host memory for all layers of it: [layers, page_bytes].
struct SwappedPage {
  PageId page = 0;
  std::byte* host = nullptr;
};

enum class SwapDirection { kOut, kIn };

/// Copies pages in all layers of a pool out to the host's memory, or in from there. What follows in
/// the stream finds them copied from its first instruction on. Throws kFailed for a page that there
/// is not.
void swap_pages(const KvPool& pool, std::span<const SwappedPage> pages, SwapDirection direction,
                cudaStream_t stream);

}  // namespace nibble::ops::cuda
