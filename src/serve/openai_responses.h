#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "serve/json_text.h"
#include "serve/tool_calls.h"
#include "text/tokenizer.h"

/// The answers of OpenAI's API, whole or as server-sent events (HTML standard, section 9.2).
namespace nibble::serve {

/// What every part of an answer repeats.
struct AnswerHead {
  bool chat = false;
  std::string id;
  std::string model;
  std::int64_t created = 0;  // Unix seconds
};

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;  // of the prompt
};

/// Log probabilities of tokens that follow one another, in the form of completions or of chats.
class LogProbabilities {
 public:
  LogProbabilities(const text::Tokenizer& tokenizer, bool chat, int most_probable)
      : tokenizer_(&tokenizer), chat_(chat), most_probable_(most_probable) {}

  void add(std::span<const engine::TokenRecord> records);
  /// The first token of an echoed prompt, which nothing predicts.
  void add_first(std::int32_t token);
  /// The object of what was added since the last time.
  OrderedJson take();
  bool empty() const { return tokens_.empty(); }

 private:
  void add_for_chat(const engine::TokenRecord& record);
  void add_for_completion(std::int32_t token, OrderedJson log_probability, OrderedJson most);
  OrderedJson chance(std::int32_t token, float log_probability) const;

  const text::Tokenizer* tokenizer_;
  bool chat_;
  int most_probable_;
  std::int64_t offset_ = 0;  // characters of text before the next token
  OrderedJson tokens_ = OrderedJson::array();
  OrderedJson values_ = OrderedJson::array();
  OrderedJson most_ = OrderedJson::array();
  OrderedJson offsets_ = OrderedJson::array();
};

/// One of the texts that were asked for.
struct Choice {
  std::string text;
  OrderedJson log_probabilities;         // or null
  std::string finish_reason;             // "stop", "length", "tool_calls"
  std::string prompt_log_probabilities;  // JSON; empty: not asked for
  std::vector<ToolCall> tool_calls;      // of chats
};

/// vLLM's "prompt_logprobs": for each token of a prompt an object of token ids, of its own and of
/// the `most_probable` ones in its place; null for the first token, which nothing predicts.
/// `records` are those of the tokens behind it. As text: there are many, and each choice has them.
std::string prompt_log_probabilities(const text::Tokenizer& tokenizer,
                                     std::span<const engine::TokenRecord> records,
                                     int most_probable);

/// A whole answer.
std::string answer_text(const AnswerHead& head, const std::vector<Choice>& choices,
                        const Usage& usage);

/// Events. A part says its finish reason when it is the last of its choice; chats say first whose
/// turn it is. `with_usage`: whether an event of the usage follows, of which all then speak.
std::string first_event(const AnswerHead& head, int choice, bool with_usage);  // of chats
std::string part_event(const AnswerHead& head, int choice, std::string_view text,
                       const OrderedJson& log_probabilities, std::string_view finish_reason,
                       bool with_usage);
/// The events of call `index` of a choice: first its name, then its arguments.
std::string tool_call_events(const AnswerHead& head, int choice, std::size_t index,
                             const ToolCall& call, bool with_usage);
std::string usage_event(const AnswerHead& head, const Usage& usage);
std::string event(std::string_view data);
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";
inline constexpr std::string_view kHeartbeat = ": ping\n\n";

/// Embeddings as arrays of numbers, or as base64 of little-endian float32.
std::string embeddings_text(const std::string& model,
                            const std::vector<std::vector<float>>& embeddings, bool base64,
                            std::int64_t tokens);

/// RFC 4648, with padding.
std::string base64_of(std::string_view bytes);

/// The name of a token's text where it is no whole characters: "bytes:\xe2\x82".
std::string token_name(std::string_view piece);

}  // namespace nibble::serve
