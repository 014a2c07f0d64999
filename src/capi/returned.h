#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>

namespace nibble::capi {

struct Freed {
  void operator()(void* memory) const { std::free(memory); }
};

/// An array that a caller is given, and releases with nibble_free().
template <typename Value>
using Returned = std::unique_ptr<Value[], Freed>;

/// Never null, also for 0 values. Throws std::bad_alloc.
template <typename Value>
Returned<Value> make_returned(std::size_t count) {
  static_assert(std::is_trivially_copyable_v<Value>);
  if (count > SIZE_MAX / sizeof(Value) - 1) {
    throw std::bad_alloc();
  }
  auto* memory = static_cast<Value*>(std::malloc((count + 1) * sizeof(Value)));
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return Returned<Value>(memory);
}

template <typename Value>
Returned<Value> returned(std::span<const Value> values) {
  auto copy = make_returned<Value>(values.size());
  std::copy(values.begin(), values.end(), copy.get());
  return copy;
}

/// Ended by a zero.
inline Returned<char> returned(std::string_view text) {
  auto copy = make_returned<char>(text.size());
  std::copy(text.begin(), text.end(), copy.get());
  copy[text.size()] = '\0';
  return copy;
}

}  // namespace nibble::capi
