#include "text/json_fields.h"

#include <array>

#include "characters/utf8.h"
#include "core/error.h"
#include "core/json.h"

namespace nibble::text {

using core::ErrorKind;

std::string part_type(const core::Json& json, std::string_view what) {
  core::require(json.is_object(), ErrorKind::kInvalidModel,
                "{}: must be an object with 'type' or null", what);
  return core::get_string(json, "type", what);
}

const core::Json& part_list(const core::Json& json, std::string_view key, std::string_view what) {
  const auto found = json.find(key);
  core::require(found != json.end() && found->is_array(), ErrorKind::kInvalidModel,
                "{}: '{}' must be an array", what, key);
  core::require(found->size() <= kMaxParts, ErrorKind::kInvalidModel,
                "{}: '{}' has {} steps, more than {}", what, key, found->size(), kMaxParts);
  return *found;
}

bool get_bool(const core::Json& json, std::string_view key, std::string_view what) {
  const auto value = core::find_bool(json, key, what);
  core::require(value.has_value(), ErrorKind::kInvalidModel, "{}: '{}' is missing", what, key);
  return *value;
}

PatternField get_pattern(const core::Json& json, std::string_view what) {
  const auto found = json.find("pattern");
  core::require(found != json.end() && found->is_object() && found->size() == 1,
                ErrorKind::kInvalidModel,
                "{}: 'pattern' must be {{\"String\": ...}} or {{\"Regex\": ...}}", what);
  if (auto text = core::find_string(*found, "Regex", what)) {
    return {*std::move(text), true};
  }
  constexpr std::size_t kMaxBytes = 1024;  // each place of a text is compared with all of them
  std::string text = core::get_string(*found, "String", what);
  core::require(text.size() <= kMaxBytes, ErrorKind::kInvalidModel,
                "{}: a pattern has {} bytes, more than {}", what, text.size(), kMaxBytes);
  return {std::move(text), false};
}

std::string get_character(const core::Json& json, std::string_view key, std::string_view what) {
  std::string value = core::get_string(json, key, what);
  core::require(!value.empty() && characters::utf8_bytes(value.front()) == value.size(),
                ErrorKind::kInvalidModel, "{}: '{}' must be one character, got '{}'", what, key,
                core::printable(value));
  return value;
}

std::string get_replacement(const core::Json& json, std::string_view what) {
  constexpr std::size_t kMaxBytes = 256;
  std::string content = core::get_string(json, "content", what);
  core::require(content.size() <= kMaxBytes, ErrorKind::kInvalidModel,
                "{}: 'content' has {} bytes, more than {}", what, content.size(), kMaxBytes);
  return content;
}

std::string decode_base64(std::string_view text, std::string_view what) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) {
    text.remove_suffix(1);
  }
  std::array<int, 256> value{};
  value.fill(-1);
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    value[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int>(i);
  }
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int six = value[static_cast<unsigned char>(c)];
    core::require(six >= 0, ErrorKind::kInvalidModel, "{}: not base64", what);
    bits = bits << 6 | static_cast<std::uint32_t>(six);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes.push_back(static_cast<char>(bits >> count & 0xff));
    }
  }
  return bytes;
}

}  // namespace nibble::text
