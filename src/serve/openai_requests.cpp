#include "serve/openai_requests.h"

#include <algorithm>

#include "core/error.h"
#include "core/ordered_json.h"
#include "serve/api_error.h"
#include "serve/generation_fields.h"

namespace nibble::serve {
namespace {

constexpr std::int64_t kMostTokens = INT32_MAX;

// "content" as one string: parts of text are put together, a line each.
OrderedJson read_content(const OrderedJson& content, const std::string& param) {
  if (content.is_string()) {
    return content;
  }
  if (!content.is_array() || content.empty()) {
    refuse(param, "'{}' must be a string or an array of parts, not {}", param,
           content.is_array() ? "an empty one" : type_name(content));
  }
  std::string text;
  for (const OrderedJson& part : content) {
    if (!part.is_object()) {
      refuse(param, "a part of '{}' must be an object, not {}", param, type_name(part));
    }
    const Fields fields(part, param + ".");
    const std::string type = fields.string("type").value_or("");
    if (type != "text") {
      refuse(param, "a part of '{}' has the type '{}'; only text is supported", param,
             core::printable(type));
    }
    text += text.empty() ? "" : "\n";
    text += fields.string("text").value_or("");
  }
  return text;
}

OrderedJson read_message(const OrderedJson& json, const std::string& param) {
  if (!json.is_object()) {
    refuse(param, "'{}' must be an object, not {}", param, type_name(json));
  }
  const Fields fields(json, param + ".");
  std::string role = fields.string("role").value_or("");
  if (role == "developer") {
    role = "system";
  }
  if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
    refuse(param + ".role", "'{}.role' is '{}', must be system, user, assistant or tool", param,
           core::printable(role));
  }
  OrderedJson message;
  message["role"] = role;
  const OrderedJson* content = fields.find("content");
  const OrderedJson* calls = fields.find("tool_calls");
  if (content != nullptr) {
    message["content"] = read_content(*content, param + ".content");
  } else if (role == "assistant" && calls != nullptr) {
    message["content"] = "";
  } else {
    refuse(param + ".content", "'{}.content' is missing", param);
  }
  if (role == "tool" && !fields.string("tool_call_id")) {
    refuse(param + ".tool_call_id", "'{}.tool_call_id' is missing", param);
  }
  for (const char* name : {"name", "tool_call_id", "reasoning_content"}) {
    if (auto value = fields.string(name)) {
      message[name] = std::move(*value);
    }
  }
  if (calls != nullptr) {
    if (role != "assistant") {
      refuse(param + ".tool_calls", "'{}.tool_calls' is only for messages of the assistant", param);
    }
    message["tool_calls"] = read_tool_calls(*calls, param + ".tool_calls");
  }
  return message;
}

OrderedJson read_messages(const Fields& fields) {
  const OrderedJson* json = fields.find("messages");
  if (json == nullptr || !json->is_array() || json->empty()) {
    refuse("messages", "'messages' must be an array of at least one message");
  }
  OrderedJson messages = OrderedJson::array();
  for (const OrderedJson& message : *json) {
    messages.push_back(read_message(message, fmt::format("messages[{}]", messages.size())));
  }
  return messages;
}

void read_chat_log_probabilities(const Fields& fields, GenerationOptions& options) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto count = fields.integer("top_logprobs", 0, kMaxLogProbabilities);
  if (count && !wanted && *count > 0) {
    refuse("top_logprobs", "'top_logprobs' is only for 'logprobs': true");
  }
  if (wanted) {
    options.log_probabilities = static_cast<int>(count.value_or(0));
  }
}

std::string read_model(const Fields& fields) {
  return fields.string("model").value_or("");
}

}  // namespace

std::string field_of_texts(int texts, int choices) {
  return texts > choices ? "best_of" : "n";
}

CompletionRequest read_completion(const OrderedJson& json, const RequestLimits& limits) {
  const Fields fields(json);
  refuse_fields(fields, {"suffix"});
  CompletionRequest request;
  request.model = read_model(fields);
  request.options = read_generation_options(fields, limits);
  request.echo = fields.boolean("echo").value_or(false);
  request.add_special = fields.boolean("add_special_tokens").value_or(true);
  request.options.max_tokens =
      fields.integer("max_tokens", request.echo ? 0 : 1, kMostTokens).value_or(16);
  if (const auto count = fields.integer("logprobs", 0, kMaxLogProbabilities)) {
    request.options.log_probabilities = static_cast<int>(*count);
  }
  if (request.echo && request.options.log_probabilities && request.options.stream) {
    refuse("echo", "'echo' with 'logprobs' cannot be streamed");
  }
  request.prompts = read_prompts(fields, "prompt", kMaxPrompts, limits);
  const int texts = request.options.texts;
  if (request.prompts.size() * static_cast<std::size_t>(texts) > kMaxPrompts) {
    refuse(field_of_texts(texts, request.options.choices),
           "{} prompts with {} texts each are more than {}", request.prompts.size(), texts,
           kMaxPrompts);
  }
  return request;
}

ChatRequest read_chat(const OrderedJson& json, const RequestLimits& limits) {
  const Fields fields(json);
  refuse_fields(fields, {"functions", "function_call", "audio", "prediction", "web_search_options",
                         "documents", "chat_template", "echo", "continue_final_message"});
  const auto* modalities = fields.find("modalities");
  if (modalities != nullptr && *modalities != OrderedJson::array({"text"})) {
    refuse("modalities", "'modalities' other than text are not supported by this server");
  }
  ChatRequest request;
  request.model = read_model(fields);
  request.messages = read_messages(fields);
  request.options = read_generation_options(fields, limits);
  request.tools = read_tools(fields);
  const Constraint& constraint = request.options.constraint;
  if (request.tools.choice != ToolOptions::Choice::kNone &&
      constraint.kind != Constraint::Kind::kNone) {
    refuse(constraint.param, "'{}' cannot be combined with 'tools' that may be called",
           constraint.param);
  }
  read_chat_log_probabilities(fields, request.options);
  const auto tokens = fields.integer("max_tokens", 1, kMostTokens);
  const auto completion_tokens = fields.integer("max_completion_tokens", 1, kMostTokens);
  request.options.max_tokens = completion_tokens ? completion_tokens : tokens;
  if (const auto values = fields.object("chat_template_kwargs")) {
    request.template_values = values->json();
  }
  request.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  return request;
}

EmbeddingsRequest read_embeddings(const OrderedJson& json, const RequestLimits& limits) {
  refuse_fields(Fields(json), {"truncate_prompt_tokens"});
  return read_embedding_fields(json, limits);
}

EmbeddingsRequest read_embedding_fields(const OrderedJson& json, const RequestLimits& limits) {
  const Fields fields(json);
  EmbeddingsRequest request;
  request.model = read_model(fields);
  const std::string format = fields.string("encoding_format").value_or("float");
  if (format != "float" && format != "base64") {
    refuse("encoding_format", "'encoding_format' is '{}', must be float or base64",
           core::printable(format));
  }
  request.base64 = format == "base64";
  request.dimensions = fields.integer("dimensions", 1, INT32_MAX);
  request.inputs = read_prompts(fields, "input", kMaxInputs, limits);
  return request;
}

TokenizeRequest read_tokenize(const OrderedJson& json, const RequestLimits& limits) {
  const Fields fields(json);
  TokenizeRequest request;
  request.with_pieces = fields.boolean("with_pieces").value_or(false);
  request.parse_special = fields.boolean("parse_special").value_or(true);
  if (fields.find("messages") != nullptr) {
    request.chat = read_chat(json, limits);
    return request;
  }
  // vLLM's field means a prompt with its special tokens, llama.cpp's a text without; clients that
  // do not know whom they ask send both.
  const auto prompt = fields.string("prompt");
  const auto content = fields.string("content");
  if (!prompt && !content) {
    refuse("prompt", "give the text as 'prompt', as 'content', or as 'messages'");
  }
  request.text = prompt ? *prompt : *content;
  request.add_special = prompt ? fields.boolean("add_special_tokens").value_or(true)
                               : fields.boolean("add_special").value_or(false);
  return request;
}

DetokenizeRequest read_detokenize(const OrderedJson& json, const RequestLimits& limits) {
  const Fields fields(json);
  const auto tokens = fields.integers("tokens", 0, limits.vocabulary - 1, 1 << 22);
  if (!tokens) {
    refuse("tokens", "'tokens' is missing");
  }
  return {*tokens, fields.boolean("skip_special_tokens").value_or(false)};
}

}  // namespace nibble::serve
