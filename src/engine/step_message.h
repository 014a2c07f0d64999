#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "core/error.h"

/// What rank 0 tells the others of a call, as bytes: numbers, and spans of them behind their
/// length.
namespace nibble::engine {

class StepWriter {
 public:
  void number(std::int64_t value) { append(&value, sizeof(value)); }

  template <typename T>
  void numbers(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    number(std::ssize(values));
    append(values.data(), values.size_bytes());
  }

  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  void append(const void* from, std::size_t count) {
    if (count > 0) {
      bytes_.resize(bytes_.size() + count);
      std::memcpy(bytes_.data() + (bytes_.size() - count), from, count);
    }
  }

  std::vector<std::byte> bytes_;
};

/// Reads what StepWriter has written. Throws kFailed where the bytes end before.
class StepReader {
 public:
  explicit StepReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::int64_t number() {
    std::int64_t value = 0;
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
    return value;
  }

  template <typename T>
  std::vector<T> numbers() {
    const auto count = static_cast<std::size_t>(number());
    core::require(count <= bytes_.size() / sizeof(T), core::ErrorKind::kFailed,
                  "what rank 0 told is cut off");
    std::vector<T> values(count);
    const auto from = take(count * sizeof(T));
    if (count > 0) {
      std::memcpy(values.data(), from.data(), from.size());
    }
    return values;
  }

 private:
  std::span<const std::byte> take(std::size_t count) {
    core::require(count <= bytes_.size(), core::ErrorKind::kFailed, "what rank 0 told is cut off");
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }

  std::span<const std::byte> bytes_;
};

}  // namespace nibble::engine
