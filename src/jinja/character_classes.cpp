#include "jinja/character_classes.h"

#include <unicode/uchar.h>

namespace nibble::jinja {
namespace {

UChar32 icu(char32_t code_point) {
  return static_cast<UChar32>(code_point);
}

}  // namespace

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

}  // namespace nibble::jinja
