#include "jinja/tag_text.h"

#include "jinja/texts.h"

namespace nibble::jinja {

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
      continue;
    }
    out.push_back('\n');
    i += i + 1 < source.size() && source[i + 1] == '\n' ? 1 : 0;
  }
  if (out.ends_with('\n')) {
    out.pop_back();
  }
  return out;
}

std::string_view text_before_tag(std::string_view text, char sign, bool is_output,
                                 bool at_line_start) {
  if (sign == '-') {
    return strip_space(text, false, true);
  }
  if (sign == '+' || is_output) {
    return text;
  }
  const std::size_t newline = text.rfind('\n');
  const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
  const bool from_line_start = line > 0 || at_line_start;
  const bool blank = skip_space(text, line) == text.size();
  return from_line_start && blank ? text.substr(0, line) : text;
}

}  // namespace nibble::jinja
