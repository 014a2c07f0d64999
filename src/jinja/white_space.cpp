#include "jinja/white_space.h"

#include <algorithm>
#include <cstring>

#include "characters/utf8.h"

namespace nibble::jinja {
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

}  // namespace

std::vector<std::string_view> split_code_points(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = characters::utf8_bytes(text[at]);
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
    if (!is_space(characters::next_code_point(text, next))) {
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
    if (!is_space(characters::next_code_point(text, at))) {
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

}  // namespace nibble::jinja
