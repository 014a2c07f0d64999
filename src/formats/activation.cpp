#include "formats/activation.h"

#include <algorithm>
#include <charconv>

#include "core/error.h"

namespace nibble::formats {
namespace {

constexpr std::int64_t kMaxGroup = std::int64_t{1} << 30;
constexpr float kSmallestClip = 0.1f;

bool take(std::string_view& text, char letter) {
  if (text.empty() || text.front() != letter) {
    return false;
  }
  text.remove_prefix(1);
  return true;
}

template <typename T>
bool take_number(std::string_view& text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return error == std::errc();
}

// Integers go by their bits, all others by the word of their type.
std::string code_word(const Activation& activation) {
  for (const CodeWord& word : activation.type->words) {
    if (activation.type != &kIntegerCodes && word.bits == activation.bits) {
      return std::string(word.word);
    }
  }
  return std::to_string(activation.bits);
}

bool take_type(std::string_view& text, Activation& activation) {
  for (const CodeType* const type : activation_types()) {
    for (const CodeWord& word : type->words) {
      if (text.starts_with(word.word)) {
        activation.bits = word.bits;
        activation.type = type;
        text.remove_prefix(word.word.size());
        return true;
      }
    }
  }
  return false;
}

}  // namespace

std::string to_string(const Activation& activation) {
  if (activation.is_float()) {
    return "";
  }
  std::string text = "a" + code_word(activation);
  if (activation.group != 0) {
    text += fmt::format("g{}", activation.group);
  }
  if (activation.clip != 1.0f) {
    text += fmt::format("c{}", activation.clip);
  }
  if (activation.keeps_outliers) {
    text += "o";
  }
  if (activation.stored_scale) {
    text += "s";
  }
  return activation.symmetric ? text : text + "-asym";
}

std::optional<Activation> parse_activation(std::string_view word) {
  Activation activation;
  if (!take(word, 'a') || !(take_number(word, activation.bits) || take_type(word, activation))) {
    return std::nullopt;
  }
  if (take(word, 'g') && !take_number(word, activation.group)) {
    return std::nullopt;
  }
  if (take(word, 'c') && !take_number(word, activation.clip)) {
    return std::nullopt;
  }
  activation.keeps_outliers = take(word, 'o');
  activation.stored_scale = take(word, 's');
  return word.empty() ? std::optional(activation) : std::nullopt;
}

std::string_view problem_of(const Activation& activation) {
  if (activation.is_float()) {
    return activation == Activation{}
               ? ""
               : "float activations have no groups, zero points, clipping, outliers or scales";
  }
  const ActivationCodes& codes = activation.type->as_activations;
  const bool known =
      std::find(codes.bits.begin(), codes.bits.end(), activation.bits) != codes.bits.end();
  const Activation plain = {.bits = activation.bits, .type = activation.type};
  if (!known || (codes.whole_tokens && activation != plain) ||
      (!codes.zero_points && !activation.symmetric) ||
      (!codes.stored_scales && activation.stored_scale)) {
    return codes.rule;
  }
  if (activation.group < 0 || activation.group > kMaxGroup) {
    return "the group of activations is not in [0, 2^30]";
  }
  if (!(activation.clip >= kSmallestClip && activation.clip <= 1.0f)) {
    return "the clipping factor of activations is not in [0.1, 1]";
  }
  const bool plain_codes = activation.symmetric && activation.group == 0 &&
                           activation.clip == 1.0f && !activation.keeps_outliers;
  if (activation.stored_scale && !plain_codes) {
    return "a stored scale of activations is one for all inputs, without zero points, clipping and "
           "outliers (a8s)";
  }
  return "";
}

}  // namespace nibble::formats
