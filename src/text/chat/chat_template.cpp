#include "text/chat/chat_template.h"

#include "text/chat/interpreter.h"
#include "text/chat/json_value.h"
#include "text/chat/limits.h"
#include "text/chat/parser.h"
#include "text/chat/utf8.h"

namespace nibble::text {

struct ChatTemplate::Parsed {
  chat::Block block;
};

ChatTemplate::ChatTemplate(std::string_view source) {
  using core::ErrorKind;
  core::require(source.size() <= chat::kMaxSourceBytes, ErrorKind::kInvalidModel,
                "chat template: {} bytes, more than {}", source.size(), chat::kMaxSourceBytes);
  core::require(chat::is_valid_utf8(source), ErrorKind::kInvalidModel,
                "chat template: not valid UTF-8");
  parsed_ = std::make_unique<const Parsed>(Parsed{chat::parse_template(source)});
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(const OrderedJson& messages, const Options& options) const {
  using core::ErrorKind;
  core::require(messages.is_array(), ErrorKind::kUsage, "chat messages: expected an array");
  core::require(options.extra.is_object() || options.extra.is_null(), ErrorKind::kUsage,
                "chat template: the extra variables must be an object");
  std::vector<std::pair<std::string_view, chat::Value>> variables;
  std::int64_t bytes = 0;
  const auto define = [&](std::string_view name, const OrderedJson& json) {
    variables.emplace_back(name, chat::from_json(json, bytes));
  };
  define("messages", messages);
  define("tools", options.tools);
  define("documents", options.documents);
  define("add_generation_prompt", options.add_generation_prompt);
  if (!options.bos_token.empty()) {
    define("bos_token", options.bos_token);
  }
  if (!options.eos_token.empty()) {
    define("eos_token", options.eos_token);
  }
  if (options.extra.is_object()) {
    for (auto entry = options.extra.begin(); entry != options.extra.end(); ++entry) {
      define(entry.key(), entry.value());
    }
  }
  chat::Runtime runtime(bytes, options.now_unix_seconds);
  chat::Interpreter interpreter(runtime);
  for (auto& [name, value] : variables) {
    interpreter.define(name, std::move(value));
  }
  return interpreter.render(parsed_->block);
}

}  // namespace nibble::text
