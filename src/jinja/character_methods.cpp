#include <array>

#include "characters/utf8.h"
#include "jinja/character_classes.h"
#include "jinja/methods.h"
#include "jinja/white_space.h"

// The methods of str that ask what its characters are.
namespace nibble::jinja {
namespace {

template <bool (*kTest)(char32_t)>
Value all_are(Call& call) {
  const std::string_view text = call.self().bytes();
  for (std::size_t at = 0; at < text.size();) {
    if (!kTest(characters::next_code_point(text, at))) {
      return Value::boolean(false);
    }
  }
  return Value::boolean(!text.empty());
}

bool is_alphanumeric(char32_t c) {
  return is_alphabetic(c) || is_numeric(c);
}

// islower and isupper: no cased letter of the other kind, and at least one of this kind.
template <bool (*kWanted)(char32_t)>
Value cased_letters_are(Call& call) {
  bool any = false;
  const std::string_view text = call.self().bytes();
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = characters::next_code_point(text, at);
    if (is_cased(c) && !kWanted(c)) {
      return Value::boolean(false);
    }
    any = any || is_cased(c);
  }
  return Value::boolean(any);
}

constexpr std::array<Builtin, 8> kCharacterMethods = {{
    {"isalnum", all_are<is_alphanumeric>, 0, {}},
    {"isalpha", all_are<is_alphabetic>, 0, {}},
    {"isdecimal", all_are<is_decimal>, 0, {}},
    {"isdigit", all_are<is_digit>, 0, {}},
    {"islower", cased_letters_are<is_lower>, 0, {}},
    {"isnumeric", all_are<is_numeric>, 0, {}},
    {"isspace", all_are<is_space>, 0, {}},
    {"isupper", cased_letters_are<is_upper>, 0, {}},
}};

}  // namespace

std::span<const Builtin> character_methods() {
  return kCharacterMethods;
}

}  // namespace nibble::jinja
