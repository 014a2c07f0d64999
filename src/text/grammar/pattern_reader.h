#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace nibble::text {

/// Reads a pattern from left to right: what the parsers of grammars and of regular expressions
/// share.
class PatternReader {
 public:
  virtual ~PatternReader() = default;

 protected:
  explicit PatternReader(std::string_view text) : text_(text) {}

  /// Throws kUsage, naming the place.
  [[noreturn]] virtual void fail(std::string_view what) const = 0;

  bool more() const { return at_ < text_.size(); }
  char peek() const { return more() ? text_[at_] : '\0'; }
  bool take(std::string_view what);
  struct Repeats {
    std::int64_t least;
    std::int64_t most;  // -1: without end
  };
  /// What * + ? mean, if one of them comes next.
  std::optional<Repeats> repeats();
  /// A number of repetitions, if digits come next.
  std::optional<std::int64_t> number();
  /// A hexadecimal digit.
  std::uint32_t hex_digit();
  /// A code point of so many hexadecimal digits.
  std::uint32_t hex(int digits);
  /// The code point, if it is one of UTF-8.
  std::uint32_t checked(std::uint32_t point) const;

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace nibble::text
