#include "serve/openai_responses.h"

#include <utility>

#include <fmt/format.h>

#include "core/ordered_json.h"

namespace nibble::serve {
namespace {

OrderedJson reason_json(std::string_view reason) {
  return reason.empty() ? OrderedJson() : OrderedJson(reason);
}

OrderedJson chunk(const AnswerHead& head, OrderedJson choice, bool with_usage) {
  OrderedJson json = envelope(head, head.chat ? "chat.completion.chunk" : "text_completion");
  json["choices"] = OrderedJson::array({std::move(choice)});
  if (with_usage) {
    json["usage"] = nullptr;
  }
  return json;
}

}  // namespace

OrderedJson envelope(const AnswerHead& head, const char* object) {
  OrderedJson json;
  json["id"] = head.id;
  json["object"] = object;
  json["created"] = head.created;
  json["model"] = head.model;
  return json;
}

OrderedJson usage_json(const Usage& usage) {
  OrderedJson json;
  json["prompt_tokens"] = usage.prompt_tokens;
  json["completion_tokens"] = usage.completion_tokens;
  json["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  json["prompt_tokens_details"] = {{"cached_tokens", usage.cached_tokens}};
  return json;
}

OrderedJson tool_calls_json(const std::vector<ToolCall>& calls) {
  OrderedJson list = OrderedJson::array();
  for (const ToolCall& call : calls) {
    OrderedJson json;
    json["id"] = call.id;
    json["type"] = "function";
    json["function"] = {{"name", call.name}, {"arguments", call.arguments}};
    list.push_back(std::move(json));
  }
  return list;
}

std::string event(std::string_view data) {
  return fmt::format("data: {}\n\n", data);
}

std::string first_event(const AnswerHead& head, int choice, bool with_usage) {
  OrderedJson one;
  one["index"] = choice;
  one["delta"] = {{"role", "assistant"}, {"content", ""}};
  one["logprobs"] = nullptr;
  one["finish_reason"] = nullptr;
  return event(to_text(chunk(head, std::move(one), with_usage)));
}

std::string part_event(const AnswerHead& head, int choice, std::string_view text,
                       const OrderedJson& log_probabilities, std::string_view finish_reason,
                       bool with_usage) {
  OrderedJson one;
  one["index"] = choice;
  if (head.chat) {
    one["delta"] = OrderedJson::object();
    if (!text.empty()) {
      one["delta"]["content"] = text;
    }
  } else {
    one["text"] = text;
  }
  one["logprobs"] = log_probabilities;
  one["finish_reason"] = reason_json(finish_reason);
  return event(to_text(chunk(head, std::move(one), with_usage)));
}

std::string tool_call_events(const AnswerHead& head, int choice, std::size_t index,
                             const ToolCall& call, bool with_usage) {
  OrderedJson begun;
  begun["index"] = index;
  begun["id"] = call.id;
  begun["type"] = "function";
  begun["function"] = {{"name", call.name}, {"arguments", ""}};
  OrderedJson more;
  more["index"] = index;
  more["function"]["arguments"] = call.arguments;
  std::string events;
  for (const OrderedJson& delta : {begun, more}) {
    OrderedJson one;
    one["index"] = choice;
    one["delta"]["tool_calls"] = OrderedJson::array({delta});
    one["logprobs"] = nullptr;
    one["finish_reason"] = nullptr;
    events += event(to_text(chunk(head, std::move(one), with_usage)));
  }
  return events;
}

std::string usage_event(const AnswerHead& head, const Usage& usage) {
  OrderedJson json = envelope(head, head.chat ? "chat.completion.chunk" : "text_completion");
  json["choices"] = OrderedJson::array();
  json["usage"] = usage_json(usage);
  return event(to_text(json));
}

}  // namespace nibble::serve
