#include "serve/tool_requests.h"

#include <algorithm>

#include "core/error.h"
#include "core/ordered_json.h"
#include "serve/api_error.h"

namespace nibble::serve {
namespace {

bool is_tool_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxToolNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-';
         });
}

const OrderedJson& require_object(const OrderedJson* json, const std::string& param) {
  if (json == nullptr) {
    refuse(param, "'{}' is missing", param);
  }
  if (!json->is_object()) {
    refuse(param, "'{}' must be an object, not {}", param, type_name(*json));
  }
  return *json;
}

// The inner object of {"type": "function", "function": {...}}.
Fields read_function(const Fields& fields, bool needs_type) {
  const auto type = fields.string("type");
  if (type ? *type != "function" : needs_type) {
    refuse(fields.path("type"), "'{}' must be \"function\"", fields.path("type"));
  }
  const OrderedJson& function = require_object(fields.find("function"), fields.path("function"));
  return Fields(function, fields.path("function."));
}

std::string read_name(const Fields& function) {
  const std::string name = function.string("name").value_or("");
  if (!is_tool_name(name)) {
    refuse(function.path("name"),
           "'{}' must be 1 to {} letters, digits, underscores and dashes, not '{}'",
           function.path("name"), kMaxToolNameBytes, core::printable(name));
  }
  return name;
}

OrderedJson read_definition(const OrderedJson& json, const std::string& param) {
  const Fields function = read_function(Fields(require_object(&json, param), param + "."), true);
  OrderedJson definition;
  definition["name"] = read_name(function);
  if (auto description = function.string("description")) {
    definition["description"] = std::move(*description);
  }
  const auto parameters = function.object("parameters");
  definition["parameters"] =
      parameters ? parameters->json()
                 : OrderedJson{{"type", "object"}, {"properties", OrderedJson::object()}};
  function.boolean("strict");  // only its type matters: what is forced always keeps its schema
  return {{"type", "function"}, {"function", std::move(definition)}};
}

void read_definitions(const Fields& fields, ToolOptions& tools) {
  const OrderedJson* json = fields.find("tools");
  if (json == nullptr) {
    return;
  }
  if (!json->is_array()) {
    refuse("tools", "'tools' must be an array, not {}", type_name(*json));
  }
  if (json->size() > kMaxTools) {
    refuse("tools", "'tools' has {} entries, at most {} are allowed", json->size(), kMaxTools);
  }
  for (const OrderedJson& tool : *json) {
    const std::string param = fmt::format("tools[{}]", tools.names.size());
    OrderedJson definition = read_definition(tool, param);
    auto name = definition["function"]["name"].get<std::string>();
    if (std::find(tools.names.begin(), tools.names.end(), name) != tools.names.end()) {
      refuse(param + ".function.name", "two tools have the name '{}'", name);
    }
    tools.names.push_back(std::move(name));
    tools.definitions.push_back(std::move(definition));
  }
}

void read_choice(const OrderedJson& json, ToolOptions& tools) {
  using Choice = ToolOptions::Choice;
  const std::string text = json.is_string() ? json.get<std::string>() : "";
  if (text == "none") {
    tools.choice = Choice::kNone;
  } else if (text == "required") {
    tools.choice = Choice::kRequired;
  } else if (json.is_object()) {
    const std::string name = read_name(read_function(Fields(json, "tool_choice."), true));
    const auto at = std::find(tools.names.begin(), tools.names.end(), name);
    if (at == tools.names.end()) {
      refuse("tool_choice", "'tool_choice' names the tool '{}', which is not in 'tools'", name);
    }
    tools.choice = Choice::kRequired;
    tools.named = static_cast<std::size_t>(at - tools.names.begin());
  } else if (text != "auto") {
    refuse("tool_choice",
           "'tool_choice' must be none, auto, required or "
           "{{\"type\": \"function\", \"function\": {{\"name\": ...}}}}");
  }
  if (tools.choice == Choice::kRequired && tools.names.empty()) {
    refuse("tool_choice", "'tool_choice' asks for a call, but there are no 'tools'");
  }
}

OrderedJson read_arguments(const Fields& function) {
  const std::string param = function.path("arguments");
  const OrderedJson* json = function.find("arguments");
  if (json == nullptr || json->is_object()) {
    return json == nullptr ? OrderedJson::object() : *json;
  }
  const auto text = function.string("arguments").value_or("");
  if (text.empty()) {
    return OrderedJson::object();
  }
  try {
    return parse_request(text);
  } catch (const ApiError& error) {
    refuse(param, "'{}' must be the text of a JSON object: {}", param, error.what());
  }
}

OrderedJson read_call(const OrderedJson& json, const std::string& param) {
  const Fields fields(require_object(&json, param), param + ".");
  const Fields function = read_function(fields, false);
  OrderedJson call;
  if (auto id = fields.string("id")) {
    call["id"] = std::move(*id);
  }
  call["type"] = "function";
  call["function"]["name"] = read_name(function);
  call["function"]["arguments"] = read_arguments(function);
  return call;
}

}  // namespace

ToolOptions read_tools(const Fields& fields) {
  ToolOptions tools;
  read_definitions(fields, tools);
  tools.choice = tools.names.empty() ? ToolOptions::Choice::kNone : ToolOptions::Choice::kAuto;
  if (const OrderedJson* choice = fields.find("tool_choice")) {
    read_choice(*choice, tools);
  }
  tools.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  return tools;
}

OrderedJson read_tool_calls(const OrderedJson& json, const std::string& param) {
  if (!json.is_array() || json.size() > kMaxTools) {
    refuse(param, "'{}' must be an array of at most {} calls", param, kMaxTools);
  }
  OrderedJson calls = OrderedJson::array();
  for (const OrderedJson& call : json) {
    calls.push_back(read_call(call, fmt::format("{}[{}]", param, calls.size())));
  }
  return calls;
}

}  // namespace nibble::serve
