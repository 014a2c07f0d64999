#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "engine/runner.h"
#include "ops/cuda/attention/swap_space.h"
#include "ops/cuda/cuda_ops.h"

namespace nibble::engine {

/// Pages of a GPU's KV pool in the host's memory. Copies lie on the stream of the operators,
/// between steps.
class CudaSwappedPages final : public SwappedPages {
 public:
  /// For pages of so many bytes in all layers; at most `bytes` of memory, which threads of `pool`
  /// help to take.
  CudaSwappedPages(ops::cuda::CudaOps& ops, std::int64_t page_bytes, std::int64_t bytes,
                   core::ThreadPool& pool)
      : ops_(ops), space_(page_bytes, bytes, pool) {}

  std::optional<Id> swap_out(std::span<const ops::PageId> pages) override;
  void swap_in(Id id, std::int64_t first, std::span<const ops::PageId> pages) override;
  void drop(Id id) override;

 private:
  ops::cuda::CudaOps& ops_;
  ops::cuda::SwapSpace space_;
  std::map<Id, std::vector<std::byte*>> kept_;  // by page
  Id last_id_ = 0;
};

}  // namespace nibble::engine
