#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <cuda_runtime_api.h>

#include "device/cuda/memory.h"
#include "ops/ops.h"

namespace nibble::ops::cuda {

/// The rows of each expert and their weights on the device: those of one router at a time.
class ExpertLists {
 public:
  /// Copies the lists. They are found by where they stand on the host: `routes` may be moved, its
  /// vectors must not change. Nothing on the stream may still read the lists before them.
  void send(const std::vector<ExpertRows>& routes, cudaStream_t stream);
  void clear() { lists_.clear(); }

  /// Null where these are no rows of an expert.
  const std::int32_t* rows(std::span<const std::int32_t> rows) const;
  /// Throws kFailed for another expert's.
  const float* weights(const ExpertRows& expert) const;

 private:
  struct List {
    const std::int32_t* rows;  // on the host
    std::int64_t count;
    std::int64_t first;  // among all
  };
  const List* find(const std::int32_t* rows, std::size_t count) const;

  std::vector<List> lists_;
  std::int64_t capacity_ = 0;  // rows
  device::cuda::PinnedBuffer host_;
  device::cuda::Buffer device_;  // [capacity] rows, then as many weights
};

}  // namespace nibble::ops::cuda
