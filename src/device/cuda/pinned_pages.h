#pragma once

#include <cstddef>
#include <cstdint>

#include "core/threads.h"

namespace nibble::device::cuda {

/// Much pinned memory of the host (PinnedBuffer), zeros at first, in huge pages where the system
/// has them. Threads touch it before it is pinned, which takes 20 to 50 ms for each GB where
/// PinnedBuffer takes 400. Move-only.
class PinnedPages {
 public:
  /// Throws kOutOfMemory where the machine has not so much, or the system refuses.
  PinnedPages(std::int64_t bytes, core::ThreadPool& pool);
  ~PinnedPages();
  PinnedPages(PinnedPages&& other) noexcept;
  PinnedPages& operator=(PinnedPages&& other) noexcept;

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace nibble::device::cuda
