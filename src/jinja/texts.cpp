#include "jinja/texts.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "characters/utf8.h"

namespace nibble::jinja {
namespace {

constexpr std::size_t kPartBytes = sizeof(std::string_view);

bool is_line_end(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

std::string_view last_code_point(std::string_view text) {
  return text.substr(text.size() - characters::decode_utf8_before(text, text.size()).bytes);
}

std::size_t end_of_first_word(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t next = at;
    if (is_space(characters::next_code_point(text, next))) {
      break;
    }
    at = next;
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
  while (right && !text.empty() &&
         is_space(characters::decode_utf8_before(text, text.size()).value)) {
    text.remove_suffix(last_code_point(text).size());
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

std::string_view strip_text(Runtime& runtime, std::string_view text, const Value* characters,
                            bool left, bool right) {
  if (characters == nullptr || characters->is_none()) {
    return strip_space(text, left, right);
  }
  runtime.require(characters->is_string(), "strip needs a string, got a {}",
                  characters->type_name());
  runtime.step(static_cast<std::int64_t>(characters->bytes().size()));
  const auto list = split_code_points(characters->bytes());
  const std::unordered_set<std::string_view> set(list.begin(), list.end());
  while (left && !text.empty() && set.contains(text.substr(0, characters::utf8_bytes(text[0])))) {
    text.remove_prefix(characters::utf8_bytes(text[0]));
  }
  while (right && !text.empty() && set.contains(last_code_point(text))) {
    text.remove_suffix(last_code_point(text).size());
  }
  return text;
}

std::vector<std::string_view> split_text(Runtime& runtime, std::string_view text,
                                         std::string_view separator, std::int64_t limit) {
  std::vector<std::string_view> parts;
  std::size_t at = 0;
  while (limit < 0 || static_cast<std::int64_t>(parts.size()) < limit) {
    const std::size_t found = find_bytes(text, separator, at);
    if (found == std::string_view::npos) {
      break;
    }
    runtime.grow(kPartBytes);
    parts.push_back(text.substr(at, found - at));
    at = found + separator.size();
  }
  runtime.grow(kPartBytes);
  parts.push_back(text.substr(at));
  return parts;
}

std::vector<std::string_view> split_words(Runtime& runtime, std::string_view text,
                                          std::int64_t limit) {
  std::vector<std::string_view> words;
  text = strip_space(text, true, false);
  while (!text.empty()) {
    const bool rest = limit >= 0 && static_cast<std::int64_t>(words.size()) >= limit;
    const std::size_t end = rest ? text.size() : end_of_first_word(text);
    runtime.grow(kPartBytes);
    words.push_back(text.substr(0, end));
    text = strip_space(text.substr(end), true, false);
  }
  return words;
}

std::vector<std::string_view> split_lines(Runtime& runtime, std::string_view text) {
  std::vector<std::string_view> lines;
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at;
    const char32_t c = characters::next_code_point(text, at);
    if (!is_line_end(c)) {
      continue;
    }
    at += c == U'\r' && at < text.size() && text[at] == '\n' ? 1 : 0;
    runtime.grow(kPartBytes);
    lines.push_back(text.substr(start, end - start));
    start = at;
  }
  if (start < text.size()) {
    runtime.grow(kPartBytes);
    lines.push_back(text.substr(start));
  }
  return lines;
}

Value replace_text(Runtime& runtime, std::string_view text, std::string_view from,
                   std::string_view to, std::int64_t limit) {
  TextBuilder out(runtime);
  if (from.empty()) {
    // Between all characters and at both ends.
    std::size_t at = 0;
    for (std::int64_t count = 0; (limit < 0 || count < limit) && at <= text.size(); ++count) {
      out.add(to);
      const std::size_t length = at < text.size() ? characters::utf8_bytes(text[at]) : 1;
      out.add(text.substr(std::min(at, text.size()), at < text.size() ? length : 0));
      at += length;
    }
    out.add(at < text.size() ? text.substr(at) : std::string_view());
    return out.value();
  }
  bool first = true;
  for (const std::string_view part : split_text(runtime, text, from, limit)) {
    out.add(first ? std::string_view() : to).add(part);
    first = false;
  }
  return out.value();
}

}  // namespace nibble::jinja
