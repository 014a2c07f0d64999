#include "compress/recipe/part_words.h"

#include <charconv>
#include <set>

#include "core/error.h"

namespace nibble::compress {
namespace {

using core::ErrorKind;
using formats::Scheme;
using models::LayerPart;

std::optional<int> take_number_behind(char letter, std::string_view& text) {
  int number = 0;
  if (!text.starts_with(letter)) {
    return std::nullopt;
  }
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), number);
  if (error != std::errc()) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::string_view take_up_to(char separator, std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return word;
}

}  // namespace

std::optional<Scheme> parse_type(std::string_view type, std::string_view what) {
  if (type == "float") {
    return std::nullopt;
  }
  if (auto scheme = parse_weights_and_activations(type)) {
    return scheme;
  }
  std::string problem;
  try {
    const Scheme scheme = formats::parse_scheme(type);
    if (!formats::is_dense(scheme)) {
      return scheme;
    }
    problem = fmt::format("'{}' would round the floats of the model; float leaves them", type);
  } catch (const core::Error& error) {
    problem = error.what();
  }
  core::fail(ErrorKind::kUsage,
             "{}: take float, w8a8, w4a8, w4a4 (g128, -asym behind them) or a scheme: {}", what,
             problem);
}

std::optional<Scheme> parse_weights_and_activations(std::string_view text) {
  const auto weights = take_number_behind('w', text);
  const auto activations = weights ? take_number_behind('a', text) : std::nullopt;
  if (!activations) {
    return std::nullopt;
  }
  const bool stored = text.starts_with('s');
  text.remove_prefix(stored ? 1 : 0);
  constexpr std::string_view kAsymmetric = "-asym";
  const bool asymmetric = text.ends_with(kAsymmetric);
  text.remove_suffix(asymmetric ? kAsymmetric.size() : 0);
  try {
    return formats::parse_scheme(fmt::format(
        "int{}-{}-{}-a{}{}{}", *weights, asymmetric ? "asym" : "sym", text.empty() ? "row" : text,
        *activations, stored ? "s" : "", asymmetric ? "-asym" : ""));
  } catch (const core::Error&) {
    return std::nullopt;
  }
}

models::PartSchemes parse_part_schemes(std::string_view text, const Recipe& recipe) {
  models::PartSchemes schemes;
  std::set<LayerPart> named;
  do {
    const std::string_view entry = take_up_to(',', text);
    const std::string_view word = entry.substr(0, entry.find('='));
    const auto part = models::parse_layer_part(word);
    core::require(part.has_value(), ErrorKind::kUsage,
                  "'{}' is no part of a layer; parts are qkv, out, mlp-in and mlp-out, each with a "
                  "type where wanted (qkv=w8a8,out=float)",
                  core::printable(word));
    core::require(named.insert(*part).second, ErrorKind::kUsage, "part '{}' stands twice", word);
    const auto scheme = word.size() == entry.size() ? std::optional(recipe.scheme)
                                                    : parse_type(entry.substr(word.size() + 1),
                                                                 fmt::format("part '{}'", word));
    if (scheme) {
      schemes.emplace(*part, *scheme);
    }
  } while (!text.empty());
  return schemes;
}

bool every_part_has_type(std::string_view text) {
  while (!text.empty()) {
    if (take_up_to(',', text).find('=') == std::string_view::npos) {
      return false;
    }
  }
  return true;
}

}  // namespace nibble::compress
