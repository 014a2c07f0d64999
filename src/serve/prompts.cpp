#include "serve/prompts.h"

#include <algorithm>
#include <ctime>
#include <random>
#include <unordered_set>

#include "core/error.h"
#include "core/ordered_json.h"
#include "serve/api_error.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/matcher.h"
#include "text/grammar/regex_grammar.h"

namespace nibble::serve {
namespace {

// Around the number of a guarded text: characters for private use, which no template looks at.
constexpr std::string_view kOpen = "\ue0f0";
constexpr std::string_view kClose = "\ue0f1";

constexpr std::size_t kShortBytes = 32;
constexpr std::size_t kMostPlain = 4096;

std::string random_digits() {
  std::random_device random;
  return fmt::format("{:010}{:010}", random(), random());
}

void append(std::vector<std::int32_t>& tokens, const std::vector<std::int32_t>& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
}

// Of a text that so many tokens may stand for.
std::size_t most_bytes(const text::Tokenizer& tokenizer, std::int64_t tokens) {
  const auto of_a_token = tokenizer.most_bytes_of_a_token();
  return of_a_token ? *of_a_token * static_cast<std::size_t>(tokens) : SIZE_MAX;
}

std::size_t bytes_of(const OrderedJson& messages) {
  std::size_t bytes = 0;
  for (const OrderedJson& message : messages) {
    const auto content = message.find("content");
    bytes += content != message.end() && content->is_string()
                 ? content->get_ref<const std::string&>().size()
                 : 0;
  }
  return bytes;
}

// A tokenizer that gives up on a text names its files.
std::vector<std::int32_t> encode_text(const text::Tokenizer& tokenizer, std::string_view text,
                                      text::EncodeOptions options, const std::string& param) {
  try {
    return tokenizer.encode(text, options);
  } catch (const core::Error& error) {
    if (error.kind() == core::ErrorKind::kOutOfMemory) {
      throw;
    }
    refuse(param, "'{}' cannot be encoded: this model's tokenizer gives up on it", param);
  }
}

}  // namespace

// Keeps texts in which the tokenizer would find control tokens out of the rendered prompt: a mark
// stands for each of them, which nobody can guess.
class Prompts::Guard {
 public:
  explicit Guard(const text::Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  /// Every string in it, and the names in its objects.
  void guard(OrderedJson& json) {
    if (json.is_string()) {
      guard_text(json.get_ref<std::string&>());
    } else if (json.is_array()) {
      for (OrderedJson& value : json) {
        guard(value);
      }
    } else if (json.is_object()) {
      OrderedJson guarded = OrderedJson::object();
      auto& members = guarded.get_ref<OrderedJson::object_t&>();
      for (auto& [name, value] : json.items()) {
        std::string key = name;
        guard_text(key);
        guard(value);
        // Its own emplace looks through all keys each time; these stay different ones.
        members.OrderedJson::object_t::Container::emplace_back(std::move(key), std::move(value));
      }
      json = std::move(guarded);
    }
  }

  /// All of messages but their roles, which templates compare.
  void guard_messages(OrderedJson& messages) {
    for (OrderedJson& message : messages) {
      const OrderedJson role = message["role"];
      guard(message);
      message["role"] = role;
    }
  }

  std::vector<std::int32_t> encode(std::string_view rendered) const {
    const std::string begin = fmt::format("{}{}", kOpen, key_);
    std::vector<std::int32_t> tokens;
    for (;;) {
      const std::size_t at = rendered.find(begin);
      append(tokens, encode_plain(rendered.substr(0, at), true));
      if (at == std::string_view::npos) {
        return tokens;
      }
      rendered.remove_prefix(at + begin.size());
      const std::size_t end = std::min(rendered.find(kClose), rendered.size());
      const auto number = static_cast<std::size_t>(
          std::strtoull(std::string(rendered.substr(0, end)).c_str(), nullptr, 10));
      if (number >= texts_.size()) {
        refuse("messages", "the chat template cuts texts of messages in pieces");
      }
      append(tokens, encode_plain(texts_[number], false));
      rendered.remove_prefix(std::min(rendered.size(), end + kClose.size()));
    }
  }

 private:
  std::vector<std::int32_t> encode_plain(std::string_view text, bool parse_special) const {
    return encode_text(*tokenizer_, text, {.add_special = false, .parse_special = parse_special},
                       "messages");
  }

  void guard_text(std::string& text) {
    const bool is_short = text.size() <= kShortBytes;
    if (is_short && plain_.contains(text)) {
      return;
    }
    const auto tokens = encode_plain(text, true);
    const bool special = std::any_of(tokens.begin(), tokens.end(), [this](std::int32_t token) {
      return tokenizer_->is_special(token);
    });
    if (special) {
      texts_.push_back(
          std::exchange(text, fmt::format("{}{}{}{}", kOpen, key_, texts_.size(), kClose)));
    } else if (is_short && plain_.size() < kMostPlain) {
      plain_.insert(text);
    }
  }

  const text::Tokenizer* tokenizer_;
  std::string key_ = random_digits();
  std::vector<std::string> texts_;
  std::unordered_set<std::string> plain_;  // short texts without control tokens: names come again
};

Prompts::Prompts(std::shared_ptr<const text::Tokenizer> tokenizer,
                 const std::string& template_source, std::int64_t context)
    : tokenizer_(std::move(tokenizer)),
      context_(context),
      max_bytes_(most_bytes(*tokenizer_, context)) {
  if (template_source.empty()) {
    template_error_ = "this model has no chat template";
    return;
  }
  try {
    template_.emplace(template_source);
    shows_tools_ = shows_tools(template_source);
    tool_format_ = tool_format_of(template_source);
  } catch (const core::Error& error) {
    template_error_ = fmt::format("this model's chat template cannot be read: {}",
                                  core::printable(error.what(), 400));
  }
}

void Prompts::check_length(std::size_t tokens, const std::string& param) const {
  if (tokens == 0) {
    refuse(param, "'{}' has no token", param);
  }
  if (static_cast<std::int64_t>(tokens) >= context_) {
    throw ApiError(400, "invalid_request_error",
                   fmt::format("this model's context holds {} tokens, with room for at least one "
                               "that is written; '{}' has {}",
                               context_, param, tokens),
                   param, "context_length_exceeded");
  }
}

void Prompts::check_bytes(std::size_t bytes, const std::string& param) const {
  if (bytes > max_bytes_) {
    throw ApiError(400, "invalid_request_error",
                   fmt::format("this model's context holds {} tokens, which stand for {} bytes at "
                               "the most; '{}' has {}",
                               context_, max_bytes_, param, bytes),
                   param, "context_length_exceeded");
  }
}

std::vector<std::int32_t> Prompts::encode(const Prompt& prompt, bool add_special,
                                          const std::string& param) const {
  std::vector<std::int32_t> tokens;
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    check_bytes(text->size(), param);
    tokens = encode_text(*tokenizer_, *text, {.add_special = add_special}, param);
  } else {
    tokens = std::get<std::vector<std::int32_t>>(prompt);
  }
  check_length(tokens.size(), param);
  return tokens;
}

std::string Prompts::render(const ChatRequest& request, const OrderedJson& messages) const {
  if (!template_) {
    throw ApiError(400, "invalid_request_error",
                   fmt::format("{}; use /v1/completions", template_error_), "messages");
  }
  text::ChatTemplate::Options options;
  options.add_generation_prompt = request.add_generation_prompt;
  options.bos_token = tokenizer_->bos() ? tokenizer_->piece(*tokenizer_->bos()) : "";
  options.eos_token = tokenizer_->eos() ? tokenizer_->piece(*tokenizer_->eos()) : "";
  options.now_unix_seconds = static_cast<std::int64_t>(std::time(nullptr));
  options.extra = request.template_values;
  if (!request.tools.names.empty()) {
    if (!shows_tools_) {
      refuse("tools", "this model's chat template has no place for 'tools'");
    }
    options.tools = request.tools.definitions;
  }
  try {
    return template_->render(messages, options);
  } catch (const core::Error& error) {
    refuse("messages", "the messages do not fit the model's chat template: {}", error.what());
  }
}

std::vector<std::int32_t> Prompts::tokens_of(const TokenizeRequest& request) const {
  return encode_text(*tokenizer_, request.text,
                     {.add_special = request.add_special, .parse_special = request.parse_special},
                     "prompt");
}

std::vector<std::int32_t> Prompts::tokens_of(const ChatRequest& request) const {
  Guard guard(*tokenizer_);
  ChatRequest guarded = request;
  guard.guard_messages(guarded.messages);
  guard.guard(guarded.tools.definitions);
  if (!guarded.template_values.is_null()) {
    guard.guard(guarded.template_values);
  }
  return guard.encode(render(guarded, guarded.messages));
}

// Where the messages are so long that they may not fit, they are rendered once more, before
// anything is encoded: templates may leave some out.
std::vector<std::int32_t> Prompts::encode(const ChatRequest& request) const {
  if (bytes_of(request.messages) > max_bytes_) {
    check_bytes(render(request, request.messages).size(), "messages");
  }
  auto tokens = tokens_of(request);
  check_length(tokens.size(), "messages");
  return tokens;
}

namespace {

std::shared_ptr<const text::Grammar> read_grammar(const Constraint& constraint) {
  switch (constraint.kind) {
    case Constraint::Kind::kNone:
      return nullptr;
    case Constraint::Kind::kJsonObject:
      return text::json_grammar(true);
    case Constraint::Kind::kJsonSchema:
      return text::json_schema_grammar(constraint.schema);
    case Constraint::Kind::kRegex:
      return text::parse_regex_grammar(constraint.text);
    case Constraint::Kind::kGrammar:
      return text::parse_gbnf(constraint.text);
  }
  return nullptr;
}

}  // namespace

std::shared_ptr<const text::Grammar> make_grammar(const Constraint& constraint) {
  try {
    auto grammar = read_grammar(constraint);
    if (grammar && text::GrammarMatcher(grammar).start() == text::GrammarMatcher::kDead) {
      refuse(constraint.param, "'{}' allows no text at all", constraint.param);
    }
    return grammar;
  } catch (const core::Error& error) {
    if (error.kind() == core::ErrorKind::kOutOfMemory) {
      throw;
    }
    refuse(constraint.param, "'{}': {}", constraint.param, error.what());
  }
}

}  // namespace nibble::serve
