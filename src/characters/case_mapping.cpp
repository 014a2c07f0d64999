#include "characters/case_mapping.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include "characters/utf8.h"

namespace nibble::characters {
namespace {

UChar32 icu(char32_t code_point) {
  return static_cast<UChar32>(code_point);
}

std::string utf8(const icu::UnicodeString& text) {
  std::string out;
  text.toUTF8String(out);
  return out;
}

icu::UnicodeString utf16(std::string_view text) {
  return icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

}  // namespace

std::string to_upper(std::string_view text) {
  return utf8(utf16(text).toUpper(icu::Locale::getRoot()));
}

std::string to_lower(std::string_view text) {
  return utf8(utf16(text).toLower(icu::Locale::getRoot()));
}

std::string to_capitalized(std::string_view text) {
  if (text.empty()) {
    return {};
  }
  std::size_t at = 0;
  std::string out;
  append_utf8(out, static_cast<char32_t>(u_totitle(icu(next_code_point(text, at)))));
  return out + to_lower(text.substr(at));
}

std::string to_title(std::string_view text) {
  std::string out;
  bool after_letter = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    const UChar32 mapped = after_letter ? u_tolower(icu(c)) : u_totitle(icu(c));
    append_utf8(out, static_cast<char32_t>(mapped));
    after_letter = u_hasBinaryProperty(icu(c), UCHAR_CASED) != 0;
  }
  return out;
}

}  // namespace nibble::characters
