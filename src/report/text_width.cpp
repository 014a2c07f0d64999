#include "report/text_width.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

namespace nibble::report {
namespace {

constexpr std::string_view kEllipsis = "…";  // one column

std::size_t columns_of(UChar32 c) {
  if (c < 0) {
    return 1;
  }
  const auto category = U_MASK(u_charType(c));
  if ((category & (U_GC_MN_MASK | U_GC_ME_MASK | U_GC_CF_MASK)) != 0) {
    return 0;
  }
  const int width = u_getIntPropertyValue(c, UCHAR_EAST_ASIAN_WIDTH);
  return width == U_EA_WIDE || width == U_EA_FULLWIDTH ? 2 : 1;
}

// Takes one character off the front of `text`; its columns.
std::size_t take_character(std::string_view& text) {
  std::size_t length = 0;
  UChar32 c = 0;
  U8_NEXT(text.data(), length, text.size(), c);
  text.remove_prefix(length);
  return columns_of(c);
}

}  // namespace

std::size_t text_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    width += take_character(text);
  }
  return width;
}

std::string cut_to_width(std::string_view text, std::size_t columns) {
  if (text_width(text) <= columns) {
    return std::string(text);
  }
  if (columns == 0) {
    return "";
  }
  std::string_view rest = text;
  std::size_t width = 1;  // of the ellipsis
  std::size_t kept = 0;   // bytes
  while (!rest.empty()) {
    width += take_character(rest);
    if (width > columns) {
      break;
    }
    kept = text.size() - rest.size();
  }
  return std::string(text.substr(0, kept)) + std::string(kEllipsis);
}

}  // namespace nibble::report
