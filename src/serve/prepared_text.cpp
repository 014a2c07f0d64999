#include "serve/prepared_text.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <random>
#include <utility>

#include "serve/api_error.h"

namespace nibble::serve {
namespace {

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::uint64_t random_seed() {
  static thread_local std::mt19937_64 random(std::random_device{}());
  return random();
}

engine::SamplingOptions sampling_of(const GenerationOptions& options) {
  engine::SamplingOptions sampling;
  sampling.temperature = static_cast<float>(options.temperature);
  sampling.top_k = options.top_k;
  sampling.top_p = static_cast<float>(options.top_p);
  sampling.min_p = static_cast<float>(options.min_p);
  sampling.repetition_penalty = static_cast<float>(options.repetition_penalty);
  sampling.presence_penalty = static_cast<float>(options.presence_penalty);
  sampling.frequency_penalty = static_cast<float>(options.frequency_penalty);
  sampling.logit_bias = options.logit_bias;
  sampling.seed = options.seed.value_or(random_seed());
  return sampling;
}

engine::Request engine_request(const GenerationOptions& options) {
  engine::Request request;
  request.max_tokens = std::max<std::int64_t>(
      1, options.max_tokens.value_or(std::numeric_limits<std::int32_t>::max()));
  request.min_tokens = options.min_tokens;
  request.sampling = sampling_of(options);
  request.stop = options.stop;
  request.stop_tokens = options.stop_tokens;
  request.ignore_end_tokens = options.ignore_end_tokens;
  request.log_probabilities = options.log_probabilities;
  if (options.texts > options.choices && !request.log_probabilities) {
    request.log_probabilities = 0;  // by which the texts are compared
  }
  return request;
}

void take(PreparedText& text, const GenerationOptions& options, std::size_t owner) {
  AnswerPlan& plan = text.plan;
  plan.choices = options.choices;
  plan.texts = options.texts;
  plan.log_probabilities = options.log_probabilities;
  plan.prompt_log_probabilities = options.prompt_log_probabilities;
  plan.stream = options.stream;
  plan.include_usage = options.include_usage;
  text.request = engine_request(options);
  text.request.cache_salt = fmt::format("{}:{}", owner, options.cache_salt);
  text.request.prompt_log_probabilities = options.prompt_log_probabilities;
  if (!plan.echoes.empty()) {
    text.request.prompt_log_probabilities =
        std::max(text.request.prompt_log_probabilities, text.request.log_probabilities);
  }
  if (options.constraint.kind != Constraint::Kind::kNone) {
    text.make_grammar = [constraint = options.constraint] { return make_grammar(constraint); };
  }
}

void take(PreparedText& text, const ToolOptions& tools, ToolFormat format) {
  if (tools.choice == ToolOptions::Choice::kNone) {
    return;
  }
  if (format == ToolFormat::kNone) {
    refuse("tools",
           "this server does not know how the model writes calls of tools; they can only be shown, "
           "with 'tool_choice': \"none\"");
  }
  text.plan.tools = {format, tools.names, tools.parallel};
  if (tools.choice == ToolOptions::Choice::kRequired) {
    text.make_grammar = [tools, format] { return tool_grammar(tools, format); };
  }
}

}  // namespace

PreparedText prepare(const CompletionRequest& asked, const Prompts& prompts, std::size_t owner) {
  PreparedText text;
  AnswerPlan& plan = text.plan;
  for (const Prompt& prompt : asked.prompts) {
    plan.prompts.push_back(prompts.encode(prompt, asked.add_special, "prompt"));
    if (asked.echo) {
      const auto* written = std::get_if<std::string>(&prompt);
      plan.echoes.push_back(
          written != nullptr ? *written : prompts.tokenizer().decode(plan.prompts.back(), false));
    }
  }
  plan.only_echo = asked.options.max_tokens == 0;
  take(text, asked.options, owner);
  return text;
}

PreparedText prepare(const ChatRequest& asked, const Prompts& prompts, ToolFormat format,
                     std::size_t owner) {
  PreparedText text;
  text.plan.head.chat = true;
  text.plan.prompts.push_back(prompts.encode(asked));
  take(text, asked.options, owner);
  take(text, asked.tools, format);
  return text;
}

void begin_answer(AnswerHead& head, const std::string& model) {
  head.model = model;
  head.created = unix_seconds();
  head.id = fmt::format("{}-{:016x}", head.chat ? "chatcmpl" : "cmpl", random_seed());
}

}  // namespace nibble::serve
