#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

/// What the benchmark programs share: the clock, medians, and lists of words in options.
namespace nibble::bench {

/// Seconds since some moment.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// "a,b" to {"a", "b"}.
inline std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace nibble::bench
