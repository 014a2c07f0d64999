#include "serve/tool_format.h"

#include "core/error.h"
#include "core/ordered_json.h"
#include "serve/api_error.h"
#include "text/grammar/json_schema.h"

namespace nibble::serve {
namespace {

using text::GrammarBuilder;
using text::GrammarSequence;

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

void append(GrammarSequence& to, const GrammarSequence& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// Arguments are objects, whatever else a schema allows. One that names no parameter means that
// there is none.
GrammarSequence arguments(GrammarBuilder& builder, OrderedJson schema) {
  const auto type = schema.find("type");
  core::require(type == schema.end() || *type == "object", core::ErrorKind::kUsage,
                "the type must be object");
  core::require(!schema.contains("const") && !schema.contains("enum"), core::ErrorKind::kUsage,
                "const and enum are not supported here");
  schema["type"] = "object";
  const auto properties = schema.find("properties");
  const bool unnamed = properties == schema.end() || *properties == OrderedJson::object();
  if (unnamed && !schema.contains("additionalProperties")) {
    schema["additionalProperties"] = false;
  }
  return text::json_schema_sequence(builder, schema);
}

GrammarSequence call(GrammarBuilder& builder, const OrderedJson& function, ToolFormat format) {
  const bool hermes = format == ToolFormat::kHermes;
  GrammarSequence sequence;
  GrammarBuilder::append_text(
      sequence, fmt::format("{}{{\"name\": \"{}\", \"{}\": ", hermes ? "<tool_call>\n" : "",
                            function["name"].get_ref<const std::string&>(),
                            hermes ? "arguments" : "parameters"));
  append(sequence, arguments(builder, function["parameters"]));
  GrammarBuilder::append_text(sequence, hermes ? "}\n</tool_call>" : "}");
  return sequence;
}

}  // namespace

// Qwen3-Coder and GLM have the same mark around calls that are no JSON; Mistral and Command R have
// "parameters" in what they show of tools.
ToolFormat tool_format_of(std::string_view template_source) {
  if (holds(template_source, "<tool_call>")) {
    const bool json = !holds(template_source, "<function=") && !holds(template_source, "<arg_key>");
    return json ? ToolFormat::kHermes : ToolFormat::kNone;
  }
  const bool llama = holds(template_source, "{\"name\": ") &&
                     holds(template_source, "\"parameters\": ") &&
                     !holds(template_source, "[TOOL_CALLS]");
  return llama ? ToolFormat::kLlama : ToolFormat::kNone;
}

bool shows_tools(std::string_view template_source) {
  constexpr std::string_view kName = "tools";
  for (std::size_t at = template_source.find(kName); at != std::string_view::npos;
       at = template_source.find(kName, at + 1)) {
    const std::size_t end = at + kName.size();
    if ((at == 0 || !is_word(template_source[at - 1])) &&
        (end == template_source.size() || !is_word(template_source[end]))) {
      return true;
    }
  }
  return false;
}

std::optional<ToolFormat> parse_tool_format(std::string_view name) {
  return name == "hermes"  ? std::optional(ToolFormat::kHermes)
         : name == "llama" ? std::optional(ToolFormat::kLlama)
         : name == "none"  ? std::optional(ToolFormat::kNone)
                           : std::nullopt;
}

std::shared_ptr<const text::Grammar> tool_grammar(const ToolOptions& tools, ToolFormat format) {
  GrammarBuilder builder;
  const std::int32_t root = builder.add_rule("root");
  std::vector<GrammarSequence> calls;
  for (std::size_t i = 0; i < tools.names.size(); ++i) {
    if (tools.named && *tools.named != i) {
      continue;
    }
    try {
      calls.push_back(call(builder, tools.definitions[i]["function"], format));
    } catch (const core::Error& error) {
      const std::string param = fmt::format("tools[{}].function.parameters", i);
      refuse(param, "'{}': {}", param, error.what());
    }
  }
  const GrammarSequence one = builder.any_of(calls);
  GrammarSequence text = one;
  if (format == ToolFormat::kHermes && tools.parallel && !tools.named) {
    GrammarSequence more;
    GrammarBuilder::append_text(more, "\n");
    append(more, one);
    append(text, builder.repeated(more, 0, -1));
  }
  builder.add_alternative(root, text);
  try {
    return std::make_shared<const text::Grammar>(builder.build(root));
  } catch (const core::Error& error) {
    refuse("tools", "'tools': {}", error.what());
  }
}

}  // namespace nibble::serve
