#include "report/text_width.h"

#include <algorithm>

namespace nibble::report {

std::size_t text_width(std::string_view text) {
  // Every byte begins a character but those of the form 10xxxxxx.
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) >> 6) != 2; }));
}

}  // namespace nibble::report
