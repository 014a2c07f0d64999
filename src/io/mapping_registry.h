#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace nibble::io {

/// One mapped range of addresses as the SIGBUS handler sees it. Regions are linked into a list that
/// only grows and are used again after their mapping is gone, so that a signal handler can walk the
/// list at any moment.
struct MappedRegion {
  std::atomic<std::uintptr_t> begin{0};  // 0: free
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> damaged{false};  // the handler put zeros where the file's bytes were gone
  std::atomic<bool> taken{false};
  MappedRegion* next = nullptr;
};

/// Makes [begin, begin + size) known to the handler.
MappedRegion* register_mapping(const void* begin, std::size_t size);

/// To be called before the range is unmapped.
void unregister_mapping(MappedRegion* region);

}  // namespace nibble::io
