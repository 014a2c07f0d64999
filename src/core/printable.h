#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

namespace nibble::core {

/// Text made safe for one line of a terminal or a log. A view: it is made when it is formatted or
/// becomes a string, so that a check which holds pays nothing for its message.
class Printable {
 public:
  Printable(std::string_view text, std::size_t max_bytes) : text_(text), max_bytes_(max_bytes) {}

  std::string str() const;
  operator std::string() const { return str(); }

 private:
  std::string_view text_;
  std::size_t max_bytes_;
};

/// `text` with control characters and invalid UTF-8 escaped, cut at `max_bytes`. For every string
/// that came from a file. `text` must live until the result is used.
inline Printable printable(std::string_view text, std::size_t max_bytes = 120) {
  return {text, max_bytes};
}

/// The text that `make()` gives, asked for when it is formatted: an argument of require() that
/// takes work.
template <typename Make>
struct Lazily {
  Make make;
};

template <typename Make>
Lazily<Make> lazily(Make make) {
  return {std::move(make)};
}

/// For functions that format their arguments only when something is wrong: refuses strings that
/// were made for the call, because they are made whether something is wrong or not.
template <typename... Args>
constexpr void refuse_strings_made_for_the_call() {
  static_assert((!std::is_same_v<std::remove_cv_t<Args>, std::string> && ...),
                "pass what the string is made of: printable(), lazily(), or the value itself");
}

/// Base of fmt::formatter for what becomes one text, by "{}" alone. The text is written by a
/// function of the library: what fmt's own formatters of texts are made of is large, in every
/// source anew.
struct FormattedAsText {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  static fmt::format_context::iterator write(std::string_view text, fmt::format_context& context);
};

/// The same for types that have a to_string().
struct FormattedByToString : FormattedAsText {
  template <typename T>
  auto format(const T& value, fmt::format_context& context) const {
    return write(to_string(value), context);
  }
};

}  // namespace nibble::core

template <>
struct fmt::formatter<nibble::core::Printable> : nibble::core::FormattedAsText {
  auto format(const nibble::core::Printable& text, fmt::format_context& context) const {
    return write(text.str(), context);
  }
};

template <typename Make>
struct fmt::formatter<nibble::core::Lazily<Make>> : nibble::core::FormattedAsText {
  auto format(const nibble::core::Lazily<Make>& text, fmt::format_context& context) const {
    return write(text.make(), context);
  }
};
