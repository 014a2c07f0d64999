#include "formats/activation.h"

#include <charconv>

#include "core/error.h"

namespace nibble::formats {
namespace {

constexpr std::int64_t kMaxGroup = std::int64_t{1} << 30;
constexpr float kSmallestClip = 0.1f;
constexpr std::string_view kFloat8Name = "afp8";
constexpr Activation kFloat8 = {.bits = 8, .type = ActivationType::kE4m3};

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

}  // namespace

std::string to_string(const Activation& activation) {
  if (activation.is_float()) {
    return "";
  }
  if (activation == kFloat8) {
    return std::string(kFloat8Name);
  }
  std::string text = fmt::format("a{}", activation.bits);
  if (activation.group != 0) {
    text += fmt::format("g{}", activation.group);
  }
  if (activation.clip != 1.0f) {
    text += fmt::format("c{}", activation.clip);
  }
  if (activation.keeps_outliers) {
    text += "o";
  }
  return activation.symmetric ? text : text + "-asym";
}

std::optional<Activation> parse_activation(std::string_view word) {
  if (word == kFloat8Name) {
    return kFloat8;
  }
  Activation activation;
  if (!take(word, 'a') || !take_number(word, activation.bits)) {
    return std::nullopt;
  }
  if (take(word, 'g') && !take_number(word, activation.group)) {
    return std::nullopt;
  }
  if (take(word, 'c') && !take_number(word, activation.clip)) {
    return std::nullopt;
  }
  activation.keeps_outliers = take(word, 'o');
  return word.empty() ? std::optional(activation) : std::nullopt;
}

std::string_view problem_of(const Activation& activation) {
  if (activation.bits != 0 && activation.bits != 3 && activation.bits != 4 &&
      activation.bits != 8) {
    return "activations have 3, 4 or 8 bits, or stay in float";
  }
  if (activation.is_float() && activation != Activation{}) {
    return "float activations have no groups, zero points, clipping or outliers";
  }
  if (activation.type == ActivationType::kE4m3 && activation != kFloat8) {
    return "E4M3 activations have 8 bits, one scale for each token, no zero points, clipping or "
           "outliers";
  }
  if (activation.group < 0 || activation.group > kMaxGroup) {
    return "the group of activations is not in [0, 2^30]";
  }
  if (!(activation.clip >= kSmallestClip && activation.clip <= 1.0f)) {
    return "the clipping factor of activations is not in [0.1, 1]";
  }
  return "";
}

}  // namespace nibble::formats
