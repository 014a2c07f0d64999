#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

/// Sizes up to which steps of an encoder are filled, so that one recorded step serves many calls.
namespace nibble::engine {

/// Tokens of a step of `tokens`: at most an eighth more, a multiple of 8, one of eight sizes
/// between powers of two.
inline std::int64_t padded_tokens(std::int64_t tokens) {
  constexpr std::int64_t kLeast = 8;
  const auto below = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(tokens)));
  const std::int64_t unit = std::max(kLeast, below / 8);
  return (tokens + unit - 1) / unit * unit;
}

/// Results of a step of `texts`.
inline std::int64_t padded_texts(std::int64_t texts) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(texts)));
}

}  // namespace nibble::engine
