#include "cli/sampling_options.h"

#include <charconv>

#include "cli/option.h"
#include "core/error.h"

namespace nibble::cli {
namespace {

// "15043:-5" or, with the sign between them, "15043-5" as llama.cpp writes it.
std::pair<std::int32_t, float> parse_bias(const std::string& text) {
  std::int32_t token = 0;
  float bias = 0.0f;
  const char* const end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, token);
  if (error == std::errc() && at < end && (*at == ':' || *at == '=' || *at == '+')) {
    ++at;
  }
  const auto [last, wrong] = std::from_chars(at, end, bias);
  core::require(
      error == std::errc() && wrong == std::errc() && last == end, core::ErrorKind::kUsage,
      "--logit-bias '{}' is not a token id and a bias such as 15043:-5", core::printable(text));
  return {token, bias};
}

}  // namespace

void SamplingArguments::add(CLI::App& app) {
  app_ = &app;
  add_option(app, "--temp", options_.temperature, "Temperature; 0 takes the most probable token")
      ->capture_default_str();
  add_option(app, "--top-k", options_.top_k, "Keep the k most probable tokens (0: all)")
      ->capture_default_str();
  add_option(app, "--top-p", options_.top_p, "Keep the most probable tokens up to this share")
      ->capture_default_str();
  add_option(app, "--min-p", options_.min_p,
             "Drop tokens below this share of the most probable one")
      ->capture_default_str();
  add_option(app, "--repeat-penalty,--repetition-penalty", options_.repetition_penalty,
             "Divide the logits of tokens that stand in the prompt or the text by this")
      ->capture_default_str();
  add_option(app, "--presence-penalty", options_.presence_penalty,
             "Take this from the logits of tokens that stand in the text")
      ->capture_default_str();
  add_option(app, "--frequency-penalty", options_.frequency_penalty,
             "The same, for each time that they stand there")
      ->capture_default_str();
  add_option(app, "--logit-bias", biases_,
             "TOKEN:BIAS, added to the logit of a token id (may be repeated)");
  add_option(app, "--seed", options_.seed, "Seed of the draws")->capture_default_str();
}

engine::SamplingOptions SamplingArguments::options() const {
  engine::SamplingOptions options = options_;
  for (const std::string& bias : biases_) {
    options.logit_bias.push_back(parse_bias(bias));
  }
  return options;
}

SaidDraws SamplingArguments::said() const {
  const auto said = [&](const char* name, auto value) {
    return option_of(*app_, name)->count() > 0 ? std::optional(value) : std::nullopt;
  };
  return {said("--temp", options_.temperature), said("--top-k", options_.top_k),
          said("--top-p", options_.top_p), said("--min-p", options_.min_p),
          said("--seed", options_.seed)};
}

}  // namespace nibble::cli
