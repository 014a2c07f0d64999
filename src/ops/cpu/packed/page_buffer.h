#pragma once

#include <cstddef>
#include <cstdint>

namespace nibble::ops::cpu {

/// Zero-filled memory straight from the system, for weights and activations. Buffers of 256 KiB and
/// more lie side by side in runs of huge pages: a kernel at the speed of the memory bus touches a
/// new 4 KiB page every 200 ns, and huge pages take those TLB misses away. May be made and
/// destroyed by several threads at once.
class PageBuffer {
 public:
  PageBuffer() = default;
  /// Throws kOutOfMemory.
  explicit PageBuffer(std::int64_t bytes);
  ~PageBuffer();
  PageBuffer(PageBuffer&& other) noexcept;
  PageBuffer& operator=(PageBuffer&& other) noexcept;
  PageBuffer(const PageBuffer&) = delete;
  PageBuffer& operator=(const PageBuffer&) = delete;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  void release() noexcept;

  std::byte* data_ = nullptr;  // on a border of 4 KiB
  std::int64_t bytes_ = 0;
};

}  // namespace nibble::ops::cpu
