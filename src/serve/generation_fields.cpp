#include "serve/generation_fields.h"

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "core/ordered_json.h"
#include "serve/api_error.h"

namespace nibble::serve {
namespace {

constexpr std::size_t kMaxTokensOfPrompt = 1 << 22;  // the context is asked for later

std::vector<std::string> read_stops(const Fields& fields) {
  const OrderedJson* stop = fields.find("stop");
  if (stop == nullptr) {
    return {};
  }
  std::vector<std::string> stops;
  const OrderedJson one = OrderedJson::array({*stop});
  for (const OrderedJson& text : stop->is_array() ? *stop : one) {
    if (!text.is_string()) {
      refuse("stop", "'stop' must be a string or an array of strings, not {}", type_name(text));
    }
    stops.push_back(text.get<std::string>());
    if (stops.back().empty() || stops.back().size() > kMaxStopBytes) {
      refuse("stop", "a stop string has {} bytes, must have 1 to {}", stops.back().size(),
             kMaxStopBytes);
    }
    if (stops.size() > kMaxStops) {
      refuse("stop", "there are more than {} stop strings", kMaxStops);
    }
  }
  return stops;
}

std::vector<std::pair<std::int32_t, float>> read_biases(const Fields& fields,
                                                        const RequestLimits& limits) {
  const auto biases = fields.object("logit_bias");
  std::vector<std::pair<std::int32_t, float>> read;
  if (!biases) {
    return read;
  }
  if (biases->json().size() > kMaxBiases) {
    refuse("logit_bias", "'logit_bias' has {} entries, at most {} are allowed",
           biases->json().size(), kMaxBiases);
  }
  for (const auto& [key, value] : biases->json().items()) {
    std::int32_t token = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0 ||
        token >= limits.vocabulary) {
      refuse("logit_bias", "'{}' in 'logit_bias' is no token; tokens are 0 to {}",
             core::printable(key), limits.vocabulary - 1);
    }
    const double bias = value.is_number() ? value.get<double>() : 1e9;
    if (!(bias >= -100 && bias <= 100)) {
      refuse("logit_bias", "the bias of token {} must be a number from -100 to 100", token);
    }
    read.emplace_back(token, static_cast<float>(bias));
  }
  return read;
}

void constrain(Constraint& constraint, Constraint asked) {
  if (constraint.kind != Constraint::Kind::kNone) {
    refuse(asked.param, "'{}' and '{}' both say what the text must be; give one of them",
           constraint.param, asked.param);
  }
  constraint = std::move(asked);
}

void read_response_format(const Fields& fields, Constraint& constraint) {
  const auto format = fields.object("response_format");
  if (!format) {
    return;
  }
  const std::string type = format->string("type").value_or("text");
  if (type == "json_object") {
    constrain(constraint, {Constraint::Kind::kJsonObject, "response_format", "", {}});
  } else if (type == "json_schema") {
    const auto named = format->object("json_schema");
    const OrderedJson* schema = named ? named->find("schema") : nullptr;
    if (schema == nullptr || !(schema->is_object() || schema->is_boolean())) {
      refuse("response_format.json_schema",
             "'response_format.json_schema' must be an object with a 'schema'");
    }
    constrain(constraint, {Constraint::Kind::kJsonSchema, "response_format", "", *schema});
  } else if (type != "text") {
    refuse("response_format.type",
           "'response_format.type' is '{}', must be text, json_object or json_schema",
           core::printable(type));
  }
}

Constraint read_constraint(const Fields& fields) {
  Constraint constraint;
  read_response_format(fields, constraint);
  if (const OrderedJson* schema = fields.find("guided_json")) {
    const bool written = schema->is_string();
    constrain(constraint, {Constraint::Kind::kJsonSchema, "guided_json", "",
                           written ? parse_request(schema->get<std::string>()) : *schema});
  }
  if (auto regex = fields.string("guided_regex")) {
    constrain(constraint, {Constraint::Kind::kRegex, "guided_regex", std::move(*regex), {}});
  }
  for (const char* name : {"guided_grammar", "grammar"}) {
    if (auto grammar = fields.string(name)) {
      constrain(constraint, {Constraint::Kind::kGrammar, name, std::move(*grammar), {}});
    }
  }
  return constraint;
}

void read_sampling(const Fields& fields, GenerationOptions& options) {
  options.temperature = fields.number("temperature", 0, 100).value_or(1.0);
  options.top_p = fields.number("top_p", 1e-6, 1).value_or(1.0);
  options.min_p = fields.number("min_p", 0, 0.999).value_or(0.0);
  options.top_k = std::max<std::int64_t>(
      0, fields.integer("top_k", -1, INT32_MAX).value_or(0));  // vLLM's -1 is all, too
  options.repetition_penalty = fields.number("repetition_penalty", 0.01, 100).value_or(1.0);
  options.presence_penalty = fields.number("presence_penalty", -2, 2).value_or(0.0);
  options.frequency_penalty = fields.number("frequency_penalty", -2, 2).value_or(0.0);
  if (const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX)) {
    options.seed = static_cast<std::uint64_t>(*seed);
  }
}

void read_stream(const Fields& fields, GenerationOptions& options) {
  options.stream = fields.boolean("stream").value_or(false);
  if (const auto stream = fields.object("stream_options")) {
    if (!options.stream) {
      refuse("stream_options", "'stream_options' is only for 'stream': true");
    }
    options.include_usage = stream->boolean("include_usage").value_or(false);
  }
}

void read_choices(const Fields& fields, GenerationOptions& options) {
  options.choices = static_cast<int>(fields.integer("n", 1, kMaxChoices).value_or(1));
  options.texts =
      static_cast<int>(fields.integer("best_of", 1, kMaxChoices).value_or(options.choices));
  if (options.texts < options.choices) {
    refuse("best_of", "'best_of' is {}, must be at least 'n', which is {}", options.texts,
           options.choices);
  }
  if (options.stream && options.texts != options.choices) {
    refuse("best_of", "'best_of' other than 'n' cannot be streamed");
  }
}

bool says_nothing(const OrderedJson& value) {
  return value == false || (value.is_structured() && value.empty()) || value == "";
}

}  // namespace

void refuse_fields(const Fields& fields, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const OrderedJson* value = fields.find(name);
    if (value != nullptr && !says_nothing(*value)) {
      refuse(fields.path(name), "'{}' is not supported by this server", fields.path(name));
    }
  }
}

GenerationOptions read_generation_options(const Fields& fields, const RequestLimits& limits) {
  refuse_fields(fields, {"use_beam_search", "guided_choice", "bad_words", "length_penalty",
                         "truncate_prompt_tokens", "logits_processors", "structured_outputs"});
  GenerationOptions options;
  read_sampling(fields, options);
  read_stream(fields, options);
  read_choices(fields, options);
  if (const auto count = fields.integer("prompt_logprobs", 0, kMaxLogProbabilities)) {
    if (options.stream) {
      refuse("prompt_logprobs", "'prompt_logprobs' cannot be streamed");
    }
    options.prompt_log_probabilities = static_cast<int>(*count);
  }
  options.min_tokens = fields.integer("min_tokens", 0, limits.context).value_or(0);
  options.logit_bias = read_biases(fields, limits);
  options.stop = read_stops(fields);
  options.stop_tokens = fields.integers("stop_token_ids", 0, limits.vocabulary - 1, kMaxStops * 4)
                            .value_or(std::vector<std::int32_t>());
  options.ignore_end_tokens = fields.boolean("ignore_eos").value_or(false);
  options.constraint = read_constraint(fields);
  options.cache_salt = fields.string("cache_salt").value_or("");
  return options;
}

Prompt read_prompt(const OrderedJson& json, const std::string& param, const RequestLimits& limits) {
  if (json.is_string()) {
    return json.get<std::string>();
  }
  if (json.is_array()) {
    return integers_of(json, param, 0, limits.vocabulary - 1, kMaxTokensOfPrompt);
  }
  refuse(param, "'{}' must be a string, an array of tokens, or an array of these; not {}", param,
         type_name(json));
}

std::vector<Prompt> read_prompts(const Fields& fields, const char* name, std::size_t count,
                                 const RequestLimits& limits) {
  const OrderedJson* json = fields.find(name);
  if (json == nullptr) {
    refuse(name, "'{}' is missing", name);
  }
  const bool several =
      json->is_array() && !json->empty() && (json->front().is_string() || json->front().is_array());
  if (!several) {
    return {read_prompt(*json, name, limits)};
  }
  if (json->size() > count) {
    refuse(name, "'{}' has {} entries, at most {} are allowed", name, json->size(), count);
  }
  std::vector<Prompt> prompts;
  for (const OrderedJson& one : *json) {
    prompts.push_back(read_prompt(one, name, limits));
  }
  return prompts;
}

}  // namespace nibble::serve
