#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <cuda_runtime_api.h>

namespace nibble::device::cuda {

/// Memory of the device, not initialised. Move-only. Throws kOutOfMemory, naming how much was asked
/// for and how much is free.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::int64_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::int64_t bytes() const { return bytes_; }
  bool empty() const { return data_ == nullptr; }
  std::byte* data() const { return data_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

  /// Copies `values` to the device and waits for it.
  template <typename T>
  static Buffer of(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    Buffer buffer(static_cast<std::int64_t>(values.size_bytes()));
    buffer.upload(values.data(), buffer.bytes());
    return buffer;
  }

  /// Copies the first `bytes` from host memory and waits; or back to it.
  void upload(const void* source, std::int64_t bytes);
  void download(void* target, std::int64_t bytes) const;
  template <typename T>
  std::vector<T> values() const {
    std::vector<T> result(static_cast<std::size_t>(bytes_) / sizeof(T));
    download(result.data(), static_cast<std::int64_t>(result.size() * sizeof(T)));
    return result;
  }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// Memory of the host that the device copies from and to without waiting, and that its kernels can
/// read and write. Move-only.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(std::int64_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;

  std::int64_t bytes() const { return bytes_; }
  std::byte* data() const { return data_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

  /// Room for `count` of T; where there is too little, other memory takes the place of this.
  template <typename T>
  T* room_for(std::int64_t count) {
    const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(T));
    if (bytes_ < bytes) {
      *this = PinnedBuffer(bytes);
    }
    return as<T>();
  }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace nibble::device::cuda
