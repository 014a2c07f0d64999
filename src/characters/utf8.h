#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nibble::characters {

/// One character and the bytes that it takes.
struct CodePoint {
  char32_t value = 0;
  std::uint32_t bytes = 1;
};

/// Number of bytes of the character that starts with `lead`, for valid UTF-8.
inline std::uint32_t utf8_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte < 0x80) {
    return 1;
  }
  return byte < 0xe0 ? 2 : (byte < 0xf0 ? 3 : 4);
}

/// The character at `at`; `text` must be valid UTF-8 and `at` the start of a character in it.
CodePoint decode_utf8(std::string_view text, std::size_t at);

/// The character that ends before `end` > 0; the same conditions.
CodePoint decode_utf8_before(std::string_view text, std::size_t end);

/// The character at `at`, which moves past it; the same conditions.
inline char32_t next_code_point(std::string_view text, std::size_t& at) {
  const CodePoint c = decode_utf8(text, at);
  at += c.bytes;
  return c.value;
}

/// Number of characters; `text` must be valid UTF-8.
std::int64_t count_code_points(std::string_view text);

/// Where character number `index` starts in valid UTF-8; text.size() past the end.
std::size_t byte_of_code_point(std::string_view text, std::int64_t index);

void append_utf8(std::string& out, char32_t value);

/// Bytes of the longest beginning that is valid UTF-8: where the first wrong byte stands.
std::size_t valid_utf8_bytes(std::string_view text);

bool is_valid_utf8(std::string_view text);

/// Throws kInvalidModel naming `what` and the line, the place and the value of the first byte that
/// is not UTF-8.
void require_utf8(std::string_view text, std::string_view what);

/// `text` with each maximal invalid part replaced by one U+FFFD (Unicode 15, section 3.9, "U+FFFD
/// Substitution of Maximal Subparts"; what Rust's from_utf8_lossy and browsers do).
std::string to_valid_utf8(std::string_view text);

/// to_valid_utf8 for bytes that arrive in parts: the concatenated output is the same however the
/// bytes were cut.
class Utf8Repair {
 public:
  /// Appends to `out` all that is certain after `bytes`; up to three bytes of a character that may
  /// still be completed are kept.
  void push(std::string_view bytes, std::string& out);
  /// Appends U+FFFD if a character was left incomplete, and starts anew.
  void finish(std::string& out);

 private:
  std::string pending_;
};

}  // namespace nibble::characters
