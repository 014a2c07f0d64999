#pragma once

#include <string>
#include <string_view>

namespace nibble::formats::exchange {

/// The bytes of base64 text (RFC 4648) without line breaks, as tests store them.
inline std::string from_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0;
  int held = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) {
      break;  // the padding
    }
    bits = bits << 6 | static_cast<unsigned>(digit);
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes.push_back(static_cast<char>(bits >> held & 0xff));
    }
  }
  return bytes;
}

}  // namespace nibble::formats::exchange
