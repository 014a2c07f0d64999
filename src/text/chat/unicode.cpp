#include "text/chat/unicode.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include "text/chat/utf8.h"

namespace nibble::text::chat {
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
  append_code_point(out, static_cast<char32_t>(u_totitle(icu(next_code_point(text, at)))));
  return out + to_lower(text.substr(at));
}

std::string to_title(std::string_view text) {
  std::string out;
  bool after_letter = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    const UChar32 mapped = after_letter ? u_tolower(icu(c)) : u_totitle(icu(c));
    append_code_point(out, static_cast<char32_t>(mapped));
    after_letter = is_cased(c);
  }
  return out;
}

bool is_alphabetic(char32_t c) {
  return (U_GET_GC_MASK(icu(c)) & U_GC_L_MASK) != 0;
}

bool is_decimal(char32_t c) {
  return u_charType(icu(c)) == U_DECIMAL_DIGIT_NUMBER;
}

bool is_digit(char32_t c) {
  const int type = u_getIntPropertyValue(icu(c), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}

bool is_numeric(char32_t c) {
  return u_getIntPropertyValue(icu(c), UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}

bool is_cased(char32_t c) {
  return u_hasBinaryProperty(icu(c), UCHAR_CASED) != 0;
}

bool is_upper(char32_t c) {
  return u_hasBinaryProperty(icu(c), UCHAR_UPPERCASE) != 0;
}

bool is_lower(char32_t c) {
  return u_hasBinaryProperty(icu(c), UCHAR_LOWERCASE) != 0;
}

bool is_printable(char32_t c) {
  return c == U' ' || (U_GET_GC_MASK(icu(c)) & (U_GC_C_MASK | U_GC_Z_MASK)) == 0;
}

}  // namespace nibble::text::chat
