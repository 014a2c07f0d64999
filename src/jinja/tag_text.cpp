#include "jinja/tag_text.h"

#include "jinja/white_space.h"

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

std::size_t find_end_of_tag(std::string_view text, std::size_t tag, std::string_view word,
                            std::string_view end_signs, char& end_sign) {
  const auto sign_at = [&](std::size_t at, std::string_view signs) {
    return at < text.size() && signs.find(text[at]) != std::string_view::npos ? text[at] : '\0';
  };
  std::size_t at = skip_space(text, tag + 2 + (sign_at(tag + 2, "-+") != '\0' ? 1 : 0));
  if (!text.substr(at).starts_with(word)) {
    return std::string_view::npos;
  }
  at = skip_space(text, at + word.size());
  end_sign = sign_at(at, end_signs);
  at += end_sign != '\0' ? 1 : 0;
  return text.substr(at).starts_with("%}") ? at : std::string_view::npos;
}

}  // namespace nibble::jinja
