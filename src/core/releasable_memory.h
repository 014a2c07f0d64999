#pragma once

#include <cstddef>
#include <cstdint>

namespace nibble::core {

/// Zero-filled memory at an address that stays, whose pages can be given back to the system while
/// nobody needs them, and taken again, of zeros. Reading it between ends the process.
class ReleasableMemory {
 public:
  /// Throws kOutOfMemory.
  explicit ReleasableMemory(std::int64_t bytes);
  ~ReleasableMemory();
  ReleasableMemory(const ReleasableMemory&) = delete;
  ReleasableMemory& operator=(const ReleasableMemory&) = delete;

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

  void release();
  /// Throws kOutOfMemory.
  void take_again();

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace nibble::core
