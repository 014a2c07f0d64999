#include "text/chat/utf8.h"

#include <algorithm>
#include <cstring>

namespace nibble::text::chat {
namespace {

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

std::size_t start_of_last_code_point(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && is_continuation(text[at])) {
    --at;
  }
  return at;
}

// Bytes of the valid sequence at text[at], 0 when there is none (RFC 3629, table of section 4).
std::size_t valid_sequence(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) {
    return 1;
  }
  const std::size_t length = code_point_bytes(text[at]);
  if (lead < 0xc2 || lead > 0xf4 || length > text.size() - at) {
    return 0;
  }
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[at + i])) {
      return 0;
    }
  }
  const auto second = static_cast<unsigned char>(text[at + 1]);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool surrogate = lead == 0xed && second >= 0xa0;
  const bool too_large = lead == 0xf4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = valid_sequence(text, at);
    if (length == 0) {
      return false;
    }
    at += length;
  }
  return true;
}

std::size_t code_point_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte < 0x80) {
    return 1;
  }
  if (byte < 0xe0) {
    return 2;
  }
  return byte < 0xf0 ? 3 : 4;
}

std::int64_t count_code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char byte) { return !is_continuation(byte); });
}

std::size_t byte_of_code_point(std::string_view text, std::int64_t index) {
  std::size_t at = 0;
  for (std::int64_t i = 0; i < index && at < text.size(); ++i) {
    at += code_point_bytes(text[at]);
  }
  return at;
}

char32_t next_code_point(std::string_view text, std::size_t& at) {
  const std::size_t length = code_point_bytes(text[at]);
  const auto lead = static_cast<unsigned char>(text[at]);
  char32_t code_point = length == 1 ? lead : lead & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    code_point = (code_point << 6) | (static_cast<unsigned char>(text[at + i]) & 0x3fU);
  }
  at += length;
  return code_point;
}

void append_code_point(std::string& text, char32_t code_point) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xc0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3f));
  } else if (code_point < 0x10000) {
    put(0xe0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3f));
    put(0x80 | (code_point & 0x3f));
  } else {
    put(0xf0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3f));
    put(0x80 | ((code_point >> 6) & 0x3f));
    put(0x80 | (code_point & 0x3f));
  }
}

std::vector<std::string_view> split_code_points(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = code_point_bytes(text[at]);
    parts.push_back(text.substr(at, length));
    at += length;
  }
  return parts;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    std::size_t next = at;
    if (!is_space(next_code_point(text, next))) {
      break;
    }
    at = next;
  }
  return at;
}

std::string_view strip_space(std::string_view text, bool left, bool right) {
  if (left) {
    text.remove_prefix(skip_space(text, 0));
  }
  while (right && !text.empty()) {
    const std::size_t last = start_of_last_code_point(text);
    std::size_t at = last;
    if (!is_space(next_code_point(text, at))) {
      break;
    }
    text = text.substr(0, last);
  }
  return text;
}

std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from) {
  if (from > text.size() || needle.size() > text.size() - from) {
    return std::string_view::npos;
  }
  if (needle.empty()) {
    return from;
  }
  // memmem is linear (two-way matching); std::string_view::find is quadratic at worst.
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::size_t find_last_bytes(std::string_view text, std::string_view needle) {
  const std::string backward_text(text.rbegin(), text.rend());
  const std::string backward_needle(needle.rbegin(), needle.rend());
  const std::size_t found = find_bytes(backward_text, backward_needle);
  return found == std::string_view::npos ? found : text.size() - found - needle.size();
}

}  // namespace nibble::text::chat
