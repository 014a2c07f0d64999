#include "characters/properties.h"

#include <array>

#include <unicode/uchar.h>

#include "characters/utf8.h"

namespace nibble::characters {
namespace {

std::uint32_t category_mask(char32_t c) {
  return U_GET_GC_MASK(static_cast<UChar32>(c));
}

struct Range {
  char32_t first;
  char32_t last;
};

constexpr std::array<Range, 8> kBertCjk = {{{0x4e00, 0x9fff},
                                            {0x3400, 0x4dbf},
                                            {0x20000, 0x2a6df},
                                            {0x2a700, 0x2b73f},
                                            {0x2b740, 0x2b81f},
                                            {0x2b920, 0x2ceaf},
                                            {0xf900, 0xfaff},
                                            {0x2f800, 0x2fa1f}}};

}  // namespace

bool is_white_space(char32_t c) {
  if (c < 0x80) {
    return c == ' ' || (c >= '\t' && c <= '\r');
  }
  return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0;
}

bool is_numeric(char32_t c) {
  return (category_mask(c) & U_GC_N_MASK) != 0;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
  }
  return (category_mask(c) & U_GC_P_MASK) != 0;
}

bool is_word_character(char32_t c) {
  constexpr char32_t kZeroWidthNonJoiner = 0x200c;
  constexpr char32_t kZeroWidthJoiner = 0x200d;
  if (c < 0x80) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  return (category_mask(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0 ||
         c == kZeroWidthNonJoiner || c == kZeroWidthJoiner ||
         u_isUAlphabetic(static_cast<UChar32>(c)) != 0;
}

bool is_mark(char32_t c) {
  return (category_mask(c) & U_GC_M_MASK) != 0;
}

bool is_nonspacing_mark(char32_t c) {
  return (category_mask(c) & U_GC_MN_MASK) != 0;
}

bool is_control_like(char32_t c) {
  return (category_mask(c) & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK | U_GC_CS_MASK)) != 0;
}

bool is_printable(char32_t c) {
  return c == U' ' || (category_mask(c) & (U_GC_C_MASK | U_GC_Z_MASK)) == 0;
}

bool is_bert_cjk(char32_t c) {
  for (const Range& range : kBertCjk) {
    if (c >= range.first && c <= range.last) {
      return true;
    }
  }
  return false;
}

void append_lower_case(std::string& out, char32_t c) {
  // The only character whose full lower case is longer than one character and needs no context
  // (SpecialCasing.txt).
  constexpr char32_t kCapitalIWithDot = 0x130;
  if (c < 0x80) {
    out.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 0x20 : c));
  } else if (c == kCapitalIWithDot) {
    out.append("i\u0307");
  } else {
    append_utf8(out, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
  }
}

}  // namespace nibble::characters
