#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/ordered_json.h"
#include "serve/json_request.h"

/// The fields of chats about tools: functions that a client offers, and which the model may ask it
/// to call.
namespace nibble::serve {

inline constexpr std::size_t kMaxTools = 128;
inline constexpr std::size_t kMaxToolNameBytes = 64;

/// `tools`, `tool_choice` and `parallel_tool_calls`.
struct ToolOptions {
  enum class Choice {
    kNone,      // the model sees the tools, but its text is only text
    kAuto,      // it may call them
    kRequired,  // it must
  };

  /// For templates, as transformers gives them: [{"type":"function","function":{"name",
  /// "description" where there is one, "parameters": a JSON schema}}].
  OrderedJson definitions = OrderedJson::array();
  std::vector<std::string> names;  // of the definitions
  Choice choice = Choice::kNone;
  std::optional<std::size_t> named;  // kRequired: the only one that may be called, once
  bool parallel = true;              // more calls than one in one answer
};

/// Throws ApiError naming the field.
ToolOptions read_tools(const Fields& fields);

/// `tool_calls` of an assistant's message, for templates: "arguments" are objects, which clients
/// send as text. `param` names the field.
OrderedJson read_tool_calls(const OrderedJson& json, const std::string& param);

}  // namespace nibble::serve
