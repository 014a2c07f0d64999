#include "tune/qat/loss_words.h"

#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "core/error.h"

namespace nibble::tune {
namespace {

constexpr std::array kTerms = {
    std::pair{"labels", &LossWeights::labels}, std::pair{"logits", &LossWeights::logits},
    std::pair{"hidden", &LossWeights::hidden}, std::pair{"attention", &LossWeights::attention},
    std::pair{"scores", &LossWeights::scores}};

double parse_weight(std::string_view term, std::string_view text) {
  double weight = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
  core::require(error == std::errc() && end == text.data() + text.size() && std::isfinite(weight) &&
                    weight >= 0,
                core::ErrorKind::kUsage,
                "the weight '{}' of {} in the loss is no number of at least 0",
                core::printable(text), term);
  return weight;
}

}  // namespace

LossWeights parse_loss_weights(std::string_view text) {
  LossWeights weights;
  std::set<std::string_view> seen;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    const std::string_view name = word.substr(0, word.find('='));
    double LossWeights::*term = nullptr;
    for (const auto& [known, member] : kTerms) {
      term = name == known ? member : term;
    }
    core::require(term != nullptr && name.size() < word.size(), core::ErrorKind::kUsage,
                  "'{}' is no term of the loss with its weight; terms are labels=1, logits=1, "
                  "hidden=1, attention=1, scores=1, separated by commas",
                  core::printable(word));
    core::require(seen.insert(name).second, core::ErrorKind::kUsage,
                  "{} stands twice among the terms of the loss", name);
    weights.*term = parse_weight(name, word.substr(name.size() + 1));
  }
  return weights;
}

std::string to_string(const LossWeights& weights) {
  std::string text;
  for (const auto& [name, member] : kTerms) {
    if (weights.*member > 0) {
      text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, weights.*member);
    }
  }
  return text;
}

}  // namespace nibble::tune
