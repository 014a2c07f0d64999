#pragma once

#include <cstdint>

/// Keys and values of a sequence lie in pages of a fixed number of tokens, which need not lie one
/// after another in memory (paged attention, arXiv 2309.06180). A page number stands for that page
/// in every layer.
namespace nibble::ops {

/// A page of a pool, counted from 0.
using PageId = std::int32_t;

/// Tokens of a page.
inline constexpr std::int64_t kPageTokens = 16;

/// Pages that hold `tokens` tokens.
constexpr std::int64_t pages_for(std::int64_t tokens) {
  return (tokens + kPageTokens - 1) / kPageTokens;
}

}  // namespace nibble::ops
