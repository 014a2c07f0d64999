#pragma once

#include <cstddef>
#include <cstdint>

// What an untrusted template may cost. Each limit is far above what real templates need (a few
// thousand steps per message, expressions of some 20 levels) and low enough that no template can
// exhaust the stack, the memory or the patience of its host.
namespace nibble::jinja {

inline constexpr std::size_t kMaxSourceBytes = std::size_t{1} << 20;

/// Brackets, blocks and unary operators inside one another, while parsing.
inline constexpr int kMaxNesting = 100;

/// Levels of one expression's tree: "a + b + c" has three, though it nests nothing.
inline constexpr int kMaxExpressionDepth = 200;

/// Blocks and expressions that are being evaluated at one moment, macro calls included.
inline constexpr int kMaxEvaluationDepth = 400;

/// One text of a message.
inline constexpr std::size_t kMaxInputText = std::size_t{256} << 20;

/// Lists and dictionaries inside one another.
inline constexpr int kMaxValueDepth = 100;

/// Items of one range(), as in Jinja's sandbox.
inline constexpr std::int64_t kMaxRange = 100'000;

/// Evaluated nodes, loop rounds and visited items of one rendering, plus some per byte of input.
inline constexpr std::int64_t kBaseSteps = 5'000'000;
inline constexpr std::int64_t kStepsPerInputByte = 8;

/// Bytes of text and items that one rendering may make in all, its output included.
inline constexpr std::int64_t kBaseBytes = std::int64_t{64} << 20;
inline constexpr std::int64_t kBytesPerInputByte = 64;

}  // namespace nibble::jinja
