#include "serve/openai_responses.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "text/unicode/utf8.h"

namespace nibble::serve {
namespace {

constexpr double kLeast = -9999.0;  // JSON has no infinity

double finite(float log_probability) {
  return std::isfinite(log_probability) ? static_cast<double>(log_probability) : kLeast;
}

// At most so many: a record may have been made for a field that wants more.
std::span<const engine::TokenChance> first(std::span<const engine::TokenChance> chances,
                                           int count) {
  return chances.first(std::min(chances.size(), static_cast<std::size_t>(count)));
}

std::int64_t characters(std::string_view text) {
  std::int64_t count = 0;
  for (const char c : text) {
    count += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  }
  return count;
}

OrderedJson bytes_of(std::string_view piece) {
  OrderedJson bytes = OrderedJson::array();
  for (const char c : piece) {
    bytes.push_back(static_cast<unsigned char>(c));
  }
  return bytes;
}

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

// The text of an object that has fields, with one more, unless its text is empty.
std::string with_field(std::string object, std::string_view name, std::string_view value) {
  if (!value.empty()) {
    object.pop_back();
    object.append(",\"").append(name).append("\":").append(value).append("}");
  }
  return object;
}

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

OrderedJson message_json(const Choice& choice) {
  OrderedJson message;
  message["role"] = "assistant";
  message["content"] = choice.text;
  message["refusal"] = nullptr;
  if (choice.tool_calls.empty()) {
    return message;
  }
  if (choice.text.empty()) {
    message["content"] = nullptr;
  }
  OrderedJson& calls = message["tool_calls"] = OrderedJson::array();
  for (const ToolCall& call : choice.tool_calls) {
    OrderedJson json;
    json["id"] = call.id;
    json["type"] = "function";
    json["function"] = {{"name", call.name}, {"arguments", call.arguments}};
    calls.push_back(std::move(json));
  }
  return message;
}

}  // namespace

std::string token_name(std::string_view piece) {
  if (text::is_valid_utf8(piece)) {
    return std::string(piece);
  }
  std::string name = "bytes:";
  for (const char c : piece) {
    name += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return name;
}

OrderedJson LogProbabilities::chance(std::int32_t token, float log_probability) const {
  const std::string piece = tokenizer_->piece(token);
  OrderedJson json;
  json["token"] = token_name(piece);
  json["logprob"] = finite(log_probability);
  json["bytes"] = bytes_of(piece);
  return json;
}

void LogProbabilities::add_for_chat(const engine::TokenRecord& record) {
  OrderedJson json = chance(record.chosen.token, record.chosen.log_probability);
  OrderedJson most = OrderedJson::array();
  for (const engine::TokenChance& other : record.most_probable) {
    most.push_back(chance(other.token, other.log_probability));
  }
  json["top_logprobs"] = std::move(most);
  tokens_.push_back(std::move(json));
}

void LogProbabilities::add_for_completion(std::int32_t token, OrderedJson log_probability,
                                          OrderedJson most) {
  const std::string piece = tokenizer_->piece(token);
  tokens_.push_back(token_name(piece));
  values_.push_back(std::move(log_probability));
  most_.push_back(std::move(most));
  offsets_.push_back(offset_);
  offset_ += characters(piece);
}

void LogProbabilities::add(std::span<const engine::TokenRecord> records) {
  for (const engine::TokenRecord& record : records) {
    if (chat_) {
      add_for_chat(record);
      continue;
    }
    OrderedJson most;
    for (const engine::TokenChance& other : first(record.most_probable, most_probable_)) {
      most[token_name(tokenizer_->piece(other.token))] = finite(other.log_probability);
    }
    if (most_probable_ > 0) {
      most[token_name(tokenizer_->piece(record.chosen.token))] =
          finite(record.chosen.log_probability);
    }
    add_for_completion(record.chosen.token, finite(record.chosen.log_probability), std::move(most));
  }
}

void LogProbabilities::add_first(std::int32_t token) {
  add_for_completion(token, nullptr, nullptr);
}

OrderedJson LogProbabilities::take() {
  OrderedJson json;
  if (chat_) {
    json["content"] = std::exchange(tokens_, OrderedJson::array());
    json["refusal"] = nullptr;
    return json;
  }
  json["tokens"] = std::exchange(tokens_, OrderedJson::array());
  json["token_logprobs"] = std::exchange(values_, OrderedJson::array());
  json["top_logprobs"] = std::exchange(most_, OrderedJson::array());
  if (most_probable_ == 0) {
    json["top_logprobs"] = nullptr;
  }
  json["text_offset"] = std::exchange(offsets_, OrderedJson::array());
  return json;
}

std::string prompt_log_probabilities(const text::Tokenizer& tokenizer,
                                     std::span<const engine::TokenRecord> records,
                                     int most_probable) {
  const auto entry = [&](const engine::TokenChance& chance, std::int64_t rank) {
    return fmt::format(R"("{}":{{"logprob":{},"rank":{},"decoded_token":{}}})", chance.token,
                       finite(chance.log_probability), rank,
                       to_text(token_name(tokenizer.piece(chance.token))));
  };
  std::string list = "[null";
  for (const engine::TokenRecord& record : records) {
    list.append(",{").append(entry(record.chosen, record.rank));
    std::int64_t rank = 0;
    for (const engine::TokenChance& other : first(record.most_probable, most_probable)) {
      ++rank;
      if (other.token != record.chosen.token) {
        list.append(",").append(entry(other, rank));
      }
    }
    list += "}";
  }
  return list + "]";
}

std::string answer_text(const AnswerHead& head, const std::vector<Choice>& choices,
                        const Usage& usage) {
  OrderedJson json = envelope(head, head.chat ? "chat.completion" : "text_completion");
  std::string list;
  int index = 0;
  for (const Choice& choice : choices) {
    OrderedJson one;
    one["index"] = index++;
    if (head.chat) {
      one["message"] = message_json(choice);
    } else {
      one["text"] = choice.text;
    }
    one["logprobs"] = choice.log_probabilities;
    one["finish_reason"] = reason_json(choice.finish_reason);
    list += list.empty() ? "" : ",";
    list += head.chat
                ? to_text(one)
                : with_field(to_text(one), "prompt_logprobs", choice.prompt_log_probabilities);
  }
  std::string text = with_field(to_text(json), "choices", fmt::format("[{}]", list));
  text = with_field(std::move(text), "usage", to_text(usage_json(usage)));
  return head.chat ? with_field(std::move(text), "prompt_logprobs",  // vLLM's place for it
                                choices.front().prompt_log_probabilities)
                   : text;
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

std::string base64_of(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t there = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < there ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= there ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

std::string embeddings_text(const std::string& model,
                            const std::vector<std::vector<float>>& embeddings, bool base64,
                            std::int64_t tokens) {
  static_assert(std::endian::native == std::endian::little);
  std::string text = R"({"object":"list","data":[)";
  for (std::size_t i = 0; i < embeddings.size(); ++i) {
    const std::vector<float>& values = embeddings[i];
    text +=
        fmt::format(R"({}{{"object":"embedding","index":{},"embedding":)", i == 0 ? "" : ",", i);
    if (base64) {
      std::string bytes(values.size() * sizeof(float), '\0');
      std::memcpy(bytes.data(), values.data(), bytes.size());
      text += fmt::format("\"{}\"", base64_of(bytes));
    } else {
      text += fmt::format("[{}]", fmt::join(values, ","));
    }
    text += '}';
  }
  return fmt::format(R"({}],"model":{},"usage":{{"prompt_tokens":{},"total_tokens":{}}}}})", text,
                     to_text(model), tokens, tokens);
}

}  // namespace nibble::serve
