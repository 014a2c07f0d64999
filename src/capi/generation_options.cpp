#include "capi/generation_options.h"

#include <memory>

#include "capi/inputs.h"
#include "core/error.h"
#include "core/ordered_json.h"
#include "engine/language_codes.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regex_grammar.h"

namespace nibble::capi {
namespace {

using core::ErrorKind;

void refuse(bool is_set, const char* name, const char* who) {
  core::require(!is_set, ErrorKind::kUsage, "the option '{}' is for {}; leave it out", name, who);
}

std::shared_ptr<const text::Grammar> grammar_of(const nibble_generate_options& options) {
  const int count = (options.json_schema != nullptr ? 1 : 0) + (options.regex != nullptr ? 1 : 0) +
                    (options.grammar != nullptr ? 1 : 0);
  core::require(count <= 1, ErrorKind::kUsage,
                "only one of json_schema, regex and grammar may say what a text must be");
  if (options.json_schema != nullptr) {
    return text::json_schema_grammar(core::parse_ordered_json(options.json_schema, "json_schema"));
  }
  if (options.regex != nullptr) {
    return text::parse_regex_grammar(options.regex);
  }
  return options.grammar != nullptr ? text::parse_gbnf(options.grammar) : nullptr;
}

// What the caller gave is no file: malformed JSON is wrong usage.
std::shared_ptr<const text::Grammar> checked_grammar(const nibble_generate_options& options) {
  try {
    return grammar_of(options);
  } catch (const core::Error& error) {
    throw core::Error(error.kind() == ErrorKind::kInvalidModel ? ErrorKind::kUsage : error.kind(),
                      error.what());
  }
}

engine::SamplingOptions sampling_of(const nibble_generate_options& options) {
  engine::SamplingOptions sampling;
  sampling.temperature = static_cast<float>(options.temperature);
  sampling.top_k = options.top_k;
  sampling.top_p = static_cast<float>(options.top_p);
  sampling.min_p = static_cast<float>(options.min_p);
  sampling.seed = options.seed;
  sampling.repetition_penalty = static_cast<float>(options.repetition_penalty);
  sampling.presence_penalty = static_cast<float>(options.presence_penalty);
  sampling.frequency_penalty = static_cast<float>(options.frequency_penalty);
  return sampling;
}

void check_tokens(const nibble_generate_options& options) {
  core::require(options.max_tokens >= 0, ErrorKind::kUsage, "max_tokens is {}, must be at least 1",
                options.max_tokens);
  core::require(options.min_tokens >= 0, ErrorKind::kUsage, "min_tokens is {}, must be at least 0",
                options.min_tokens);
}

void refuse_options_of_decoders(const nibble_generate_options& options) {
  constexpr const char* kWho = "models that continue a prompt";
  const nibble_generate_options plain = default_generate_options();
  refuse(options.temperature != plain.temperature && options.temperature != 0, "temperature", kWho);
  refuse(options.top_k != plain.top_k, "top_k", kWho);
  refuse(options.top_p != plain.top_p, "top_p", kWho);
  refuse(options.min_p != plain.min_p, "min_p", kWho);
  refuse(options.repetition_penalty != 1, "repetition_penalty", kWho);
  refuse(options.presence_penalty != 0, "presence_penalty", kWho);
  refuse(options.frequency_penalty != 0, "frequency_penalty", kWho);
  refuse(options.seed != 0, "seed", kWho);
  refuse(options.stop_count != 0, "stop", kWho);
  refuse(options.stop_token_count != 0, "stop_tokens", kWho);
  refuse(options.ignore_eos != 0, "ignore_eos", kWho);
  refuse(options.log_probabilities >= 0, "log_probabilities", kWho);
  refuse(options.json_schema != nullptr, "json_schema", kWho);
  refuse(options.regex != nullptr, "regex", kWho);
  refuse(options.grammar != nullptr, "grammar", kWho);
}

}  // namespace

nibble_generate_options default_generate_options() {
  const engine::SamplingOptions sampling;
  nibble_generate_options options{};
  // As the program writes them: 0.8, not the float next to it.
  options.temperature = 0.8;
  options.top_k = sampling.top_k;
  options.top_p = 0.95;
  options.min_p = 0.05;
  options.repetition_penalty = 1;
  options.log_probabilities = -1;
  return options;
}

engine::Request request_of(const nibble_generate_options& options) {
  constexpr const char* kWho = "encoder-decoders";
  refuse(options.beams != 0, "beams", kWho);
  refuse(options.source_language != nullptr, "source_language", kWho);
  refuse(options.target_language != nullptr, "target_language", kWho);
  check_tokens(options);
  engine::Request request;
  if (options.max_tokens > 0) {
    request.max_tokens = options.max_tokens;
  }
  request.min_tokens = options.min_tokens;
  request.sampling = sampling_of(options);
  core::require(options.stop_count == 0 || options.stop != nullptr, ErrorKind::kUsage,
                "stop is NULL, and stop_count is {}", options.stop_count);
  for (std::size_t i = 0; i < options.stop_count; ++i) {
    const std::string_view stop = required_text(options.stop[i], "stop");
    core::require(!stop.empty(), ErrorKind::kUsage, "a stop string is empty");
    request.stop.emplace_back(stop);
  }
  core::require(options.stop_token_count == 0 || options.stop_tokens != nullptr, ErrorKind::kUsage,
                "stop_tokens is NULL, and stop_token_count is {}", options.stop_token_count);
  request.stop_tokens.assign(options.stop_tokens, options.stop_tokens + options.stop_token_count);
  request.ignore_end_tokens = options.ignore_eos != 0;
  if (options.log_probabilities >= 0) {
    request.log_probabilities = options.log_probabilities;
  }
  request.grammar = checked_grammar(options);
  return request;
}

engine::WritingOptions writing_of(const nibble_generate_options& options,
                                  const models::Model& model) {
  refuse_options_of_decoders(options);
  check_tokens(options);
  core::require(options.beams >= 0, ErrorKind::kUsage, "beams is {}, must not be negative",
                options.beams);
  engine::WritingOptions writing = engine::writing_options(model);
  if (options.beams > 0) {
    writing.beams = options.beams;
  }
  writing.samples = writing.samples && options.beams == 0 && options.temperature != 0;
  if (options.max_tokens > 0) {
    writing.max_length = options.max_tokens + 1;  // with the start token
  }
  if (options.min_tokens > 0) {
    writing.min_length = options.min_tokens + 1;
  }
  if (options.target_language != nullptr) {
    engine::set_target_language(writing, *model.tokenizer, options.target_language);
  }
  engine::validate(writing, model.network.config);
  return writing;
}

}  // namespace nibble::capi
