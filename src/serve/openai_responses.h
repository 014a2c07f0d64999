#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serve/json_text.h"
#include "serve/tool_calls.h"

/// What answers of OpenAI's API consist of, and those in server-sent events (HTML standard, section
/// 9.2).
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

/// What stands first in every answer and event.
OrderedJson envelope(const AnswerHead& head, const char* object);
OrderedJson usage_json(const Usage& usage);

/// "tool_calls" of a message.
OrderedJson tool_calls_json(const std::vector<ToolCall>& calls);

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

}  // namespace nibble::serve
