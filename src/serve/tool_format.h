#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "serve/tool_requests.h"
#include "text/grammar/grammar.h"

namespace nibble::serve {

/// How a model writes that it calls a tool.
enum class ToolFormat {
  kNone,    // in no way that is known here
  kHermes,  // <tool_call>\n{"name": "f", "arguments": {...}}\n</tool_call>, any number of them, and
            // text around them (Hermes 2 Pro, Qwen2.5, Qwen3)
  kLlama,   // {"name": "f", "parameters": {...}} as the whole text (Llama 3.1)
};

/// By what the chat template says of calls.
ToolFormat tool_format_of(std::string_view template_source);

/// Whether the template looks at the variable `tools`.
bool shows_tools(std::string_view template_source);

/// "hermes", "llama", "none"; nothing for other names.
std::optional<ToolFormat> parse_tool_format(std::string_view name);

/// Texts that are nothing but calls, whose arguments fit the tools' schemas: one call, or several
/// where `tools` and the format allow it. Throws ApiError naming the tool whose schema no grammar
/// is known for. `format` is not kNone.
std::shared_ptr<const text::Grammar> tool_grammar(const ToolOptions& tools, ToolFormat format);

}  // namespace nibble::serve
