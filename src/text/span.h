#pragma once

#include <cstddef>
#include <string_view>

namespace nibble::text {

/// A half-open range of bytes.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
};

inline std::string_view slice(std::string_view text, Span span) {
  return text.substr(span.begin, span.size());
}

}  // namespace nibble::text
