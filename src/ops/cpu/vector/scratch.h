#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/cpu/packed/page_buffer.h"

namespace nibble::ops::cpu {

/// Memory that a thread uses again and again, at the start of a cache line: registers of 64 bytes
/// that straddle two lines are read at half the speed.
class Scratch {
 public:
  /// Room for `count` numbers, valid until the next call; what stood there may be lost. Throws
  /// kOutOfMemory.
  template <typename T>
  T* values(std::int64_t count) {
    const auto bytes = count * static_cast<std::int64_t>(sizeof(T));
    if (buffer_.bytes() < bytes) {
      buffer_ = PageBuffer();
      buffer_ = PageBuffer(std::max(bytes, kLeast));
    }
    return reinterpret_cast<T*>(buffer_.data());
  }
  float* floats(std::int64_t count) { return values<float>(count); }

 private:
  static constexpr std::int64_t kLeast = 64 << 10;
  PageBuffer buffer_;
};

}  // namespace nibble::ops::cpu
