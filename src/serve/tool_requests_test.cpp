#include "serve/tool_requests.h"

#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/ordered_json.h"
#include "jinja/golden_files.h"
#include "serve/api_error.h"
#include "serve/openai_requests.h"
#include "serve/tool_format.h"
#include "text/grammar/matcher.h"

// What clients may say of tools, and the grammars that are made of it.
namespace nibble::serve {
namespace {

ChatRequest read(const std::string& fields) {
  return read_chat(parse_request(R"({"messages":[{"role":"user","content":"x"}],)" + fields + "}"),
                   {1000, 512});
}

void refused(const std::string& fields, const std::string& param) {
  try {
    read(fields);
    ADD_FAILURE() << "accepted: " << fields.substr(0, 200);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.param, param) << fields.substr(0, 200) << ": " << error.what();
  }
}

std::string tool(const std::string& name, const std::string& more = "") {
  return R"({"type":"function","function":{"name":")" + name + "\"" + more + "}}";
}

TEST(ToolRequests, AreReadAsTheyAre) {
  const ToolOptions tools =
      read(R"("tools":[{"type":"function","function":{"strict":true,"parameters":{"type":"object",)"
           R"("properties":{"b":{},"a":{}}},"description":"d","name":"f-1_X"}},)" +
           tool("g") + "]")
          .tools;
  EXPECT_EQ(tools.names, (std::vector<std::string>{"f-1_X", "g"}));
  EXPECT_EQ(tools.choice, ToolOptions::Choice::kAuto);
  EXPECT_TRUE(tools.parallel);
  EXPECT_EQ(to_text(tools.definitions),
            R"([{"type":"function","function":{"name":"f-1_X","description":"d","parameters":)"
            R"({"type":"object","properties":{"b":{},"a":{}}}}},)"
            R"({"type":"function","function":{"name":"g","parameters":)"
            R"({"type":"object","properties":{}}}}])");
  const std::string two = "\"tools\":[" + tool("f") + "," + tool("g") + "],";
  EXPECT_EQ(read(two + R"("tool_choice":"none")").tools.choice, ToolOptions::Choice::kNone);
  EXPECT_EQ(read(two + R"("tool_choice":"auto")").tools.choice, ToolOptions::Choice::kAuto);
  const ToolOptions required =
      read(two + R"("tool_choice":"required","parallel_tool_calls":false)").tools;
  EXPECT_EQ(required.choice, ToolOptions::Choice::kRequired);
  EXPECT_FALSE(required.named);
  EXPECT_FALSE(required.parallel);
  const ToolOptions named = read(two + R"("tool_choice":)" + tool("g")).tools;
  EXPECT_EQ(named.choice, ToolOptions::Choice::kRequired);
  EXPECT_EQ(named.named, 1u);
  EXPECT_EQ(read(R"("tools":[],"tool_choice":"auto")").tools.choice, ToolOptions::Choice::kNone);
  EXPECT_TRUE(read(R"("tools":null,"tool_choice":null)").tools.names.empty());
}

TEST(ToolRequests, WhatIsWrongIsNamed) {
  refused(R"("tools":{})", "tools");
  refused(R"("tools":"f")", "tools");
  refused(R"("tools":[1])", "tools[0]");
  refused(R"("tools":[null])", "tools[0]");
  refused(R"("tools":[{"function":{"name":"f"}}])", "tools[0].type");
  refused(R"("tools":[{"type":"web_search"}])", "tools[0].type");
  refused(R"("tools":[{"type":1}])", "tools[0].type");
  refused(R"("tools":[{"type":"function"}])", "tools[0].function");
  refused(R"("tools":[{"type":"function","function":"f"}])", "tools[0].function");
  refused(R"("tools":[{"type":"function","function":{}}])", "tools[0].function.name");
  refused(R"("tools":[{"type":"function","function":{"name":5}}])", "tools[0].function.name");
  for (const std::string& name : std::vector<std::string>{"", "a b", "a.b", "\xc3\xa9", "a\\\"",
                                                          "a\\u0000", std::string(65, 'a')}) {
    refused("\"tools\":[" + tool("ok") + "," + tool(name) + "]", "tools[1].function.name");
  }
  refused("\"tools\":[" + tool("f") + "," + tool("f") + "]", "tools[1].function.name");
  refused("\"tools\":[" + tool("f", R"(,"description":1)") + "]", "tools[0].function.description");
  refused("\"tools\":[" + tool("f", R"(,"parameters":[])") + "]", "tools[0].function.parameters");
  refused("\"tools\":[" + tool("f", R"(,"strict":1)") + "]", "tools[0].function.strict");
  std::string many;
  for (int i = 0; i < 129; ++i) {
    many += fmt::format("{}{}", i == 0 ? "" : ",", tool(fmt::format("f{}", i)));
  }
  refused("\"tools\":[" + many + "]", "tools");
  const std::string tools = "\"tools\":[" + tool("f") + "],";
  for (const char* choice : {"\"any\"", "\"\"", "1", "true", "[]"}) {
    refused(tools + "\"tool_choice\":" + choice, "tool_choice");
  }
  refused(tools + R"("tool_choice":{})", "tool_choice.type");
  refused(tools + R"("tool_choice":{"type":"allowed_tools"})", "tool_choice.type");
  refused(tools + R"("tool_choice":{"type":"function"})", "tool_choice.function");
  refused(tools + R"("tool_choice":{"type":"function","function":{}})",
          "tool_choice.function.name");
  refused(tools + "\"tool_choice\":" + tool("g"), "tool_choice");
  refused(R"("tool_choice":"required")", "tool_choice");
  refused("\"tool_choice\":" + tool("f"), "tool_choice");
  refused(tools + R"("parallel_tool_calls":1)", "parallel_tool_calls");
  refused(tools + R"("response_format":{"type":"json_object"})", "response_format");
  refused(tools + R"("tool_choice":"required","guided_regex":"a")", "guided_regex");
  EXPECT_EQ(read(tools + R"("tool_choice":"none","guided_regex":"a")").tools.names.size(), 1u);
}

TEST(ToolRequests, PastCallsAreReadForTemplates) {
  const auto read_call = [](const std::string& call) {
    const std::string body =
        R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[)" + call +
        "]}]}";
    return to_text(read_chat(parse_request(body), {1000, 512}).messages[1]);
  };
  EXPECT_EQ(read_call(R"({"id":"a","type":"function","function":{"name":"f",)"
                      R"("arguments":"{\"b\": 1.50, \"a\": [null]}"}})"),
            R"({"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function",)"
            R"("function":{"name":"f","arguments":{"b":1.5,"a":[null]}}}]})");
  const std::string empty = R"({"role":"assistant","content":"","tool_calls":[{"type":"function",)"
                            R"("function":{"name":"f","arguments":{}}}]})";
  EXPECT_EQ(read_call(R"({"function":{"name":"f"}})"), empty);
  EXPECT_EQ(read_call(R"({"function":{"name":"f","arguments":""}})"), empty);
  EXPECT_EQ(read_call(R"({"function":{"name":"f","arguments":{}}})"), empty);
  const auto wrong = [&](const std::string& call, const std::string& param) {
    try {
      read_call(call);
      ADD_FAILURE() << "accepted: " << call;
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status, 400);
      EXPECT_EQ(error.param, "messages[1].tool_calls" + param) << error.what();
    }
  };
  wrong("1", "[0]");
  wrong("{}", "[0].function");
  wrong(R"({"type":"custom"})", "[0].type");
  wrong(R"({"id":1,"function":{"name":"f"}})", "[0].id");
  wrong(R"({"function":{"arguments":"{}"}})", "[0].function.name");
  for (const char* arguments : {"5", "[]", R"("{")", R"("[]")", R"("{\"a\":1,\"a\":1}")"}) {
    wrong(fmt::format(R"({{"function":{{"name":"f","arguments":{}}}}})", arguments),
          "[0].function.arguments");
  }
}

TEST(ToolFormats, AreToldByTheTemplate) {
  EXPECT_EQ(tool_format_of("{{ tools }} <tool_call>\\n{\"name\": 1}"), ToolFormat::kHermes);
  EXPECT_EQ(tool_format_of("<tool_call>\\n<function=f>"), ToolFormat::kNone);
  EXPECT_EQ(tool_format_of("<tool_call>f\\n<arg_key>"), ToolFormat::kNone);
  EXPECT_EQ(tool_format_of("'{\"name\": \"' + c.name + '\", \"parameters\": '"),
            ToolFormat::kLlama);
  EXPECT_EQ(tool_format_of("[TOOL_CALLS] {\"name\": \"\", \"parameters\": "), ToolFormat::kNone);
  EXPECT_EQ(tool_format_of("{\"tool_name\": \"\", \"parameters\": "), ToolFormat::kNone);
  EXPECT_EQ(tool_format_of("{{ messages }}"), ToolFormat::kNone);
  EXPECT_TRUE(shows_tools("{% if tools %}"));
  EXPECT_TRUE(shows_tools("{{tools}}"));
  EXPECT_FALSE(shows_tools("{{ builtin_tools }}{{ tools_in_user }} tool"));
  EXPECT_EQ(parse_tool_format("llama"), ToolFormat::kLlama);
  EXPECT_EQ(parse_tool_format("none"), ToolFormat::kNone);
  EXPECT_EQ(parse_tool_format(""), std::nullopt);
}

// Templates in the shape of published ones, which the tests of the templates render.
TEST(ToolFormats, AreToldByTheShapeOfPublishedTemplates) {
  const std::map<std::string, ToolFormat> known = {{"llama-3.1", ToolFormat::kLlama},
                                                   {"qwen-2.5", ToolFormat::kHermes},
                                                   {"qwen-3", ToolFormat::kHermes}};
  std::size_t found = 0;
  const OrderedJson goldens = jinja::read_goldens("conversations.json");
  for (const OrderedJson& one : goldens.at("templates")) {
    const auto at = known.find(one["name"].get<std::string>());
    found += at != known.end() ? 1 : 0;
    EXPECT_EQ(tool_format_of(one["template"].get<std::string>()),
              at == known.end() ? ToolFormat::kNone : at->second)
        << one["name"];
  }
  EXPECT_EQ(found, known.size());
}

// Whether the whole text is one of the grammar.
bool allows(const std::shared_ptr<const text::Grammar>& grammar, const std::string& text) {
  text::GrammarMatcher matcher(grammar);
  text::GrammarMatcher::State state = matcher.start();
  for (const char c : text) {
    state = state == text::GrammarMatcher::kDead
                ? state
                : matcher.next(state, static_cast<std::uint8_t>(c));
  }
  return matcher.complete(state);
}

TEST(ToolGrammars, HoldCallsAndNothingElse) {
  // Two tools whose references mean places in their own schemas.
  const std::string of_f =
      R"(,"parameters":{"type":"object","properties":{"a":{"$ref":"#/$defs/t"}},"required":["a"],)"
      R"("$defs":{"t":{"type":"boolean"}}})";
  const std::string of_g =
      R"(,"parameters":{"properties":{"a":{"$ref":"#/$defs/t"}},"$defs":{"t":{"type":"null"}}})";
  const std::string tools =
      "\"tools\":[" + tool("f", of_f) + "," + tool("g", of_g) + "," + tool("h") + "],";
  const std::string f =
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": true}}\n</tool_call>";
  const std::string g = "<tool_call>\n{\"name\": \"g\", \"arguments\": {\"a\":null}}\n</tool_call>";
  const std::string h = "<tool_call>\n{\"name\": \"h\", \"arguments\": {}}\n</tool_call>";
  const auto with = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  const auto required =
      tool_grammar(read(tools + R"("tool_choice":"required")").tools, ToolFormat::kHermes);
  for (const std::string& text : {f, g, h, f + "\n" + g + "\n" + f, with(g, "\"a\":null", "")}) {
    EXPECT_TRUE(allows(required, text)) << text;
  }
  for (const std::string& text :
       {std::string(), "x" + f, f + "x", f + g, f + "\n", with(f, "true", "null"),
        with(g, "null", "true"), with(f, "\"a\": true", ""), with(f, "\"f\"", "\"i\""),
        with(h, "{}", "{\"a\":1}"), with(h, "{}", "[]")}) {
    EXPECT_FALSE(allows(required, text)) << text;
  }
  const auto one =
      tool_grammar(read(tools + R"("tool_choice":"required","parallel_tool_calls":false)").tools,
                   ToolFormat::kHermes);
  EXPECT_TRUE(allows(one, g));
  EXPECT_FALSE(allows(one, g + "\n" + g));
  const ToolOptions named_f = read(tools + "\"tool_choice\":" + tool("f")).tools;
  const auto named = tool_grammar(named_f, ToolFormat::kHermes);
  EXPECT_TRUE(allows(named, f));
  EXPECT_FALSE(allows(named, g));
  EXPECT_FALSE(allows(named, f + "\n" + f));
  const auto llama = tool_grammar(named_f, ToolFormat::kLlama);
  EXPECT_TRUE(allows(llama, R"({"name": "f", "parameters": {"a": false}})"));
  EXPECT_FALSE(allows(llama, f));
}

TEST(ToolGrammars, SchemasThatAreNotKnownAreNamed) {
  for (const char* parameters :
       {R"({"type":"object","patternProperties":{}})", R"({"type":"array"})",
        R"({"type":["object","null"]})", R"({"const":{}})", R"({"enum":[{}]})",
        R"({"$ref":"#/$defs/x","$defs":{"x":{}}})", R"({"anyOf":[{}]})",
        R"({"properties":{"a":{"minItems":3000}}})"}) {
    const std::string tools = "\"tools\":[" + tool("f") + "," +
                              tool("g", ",\"parameters\":" + std::string(parameters)) + "],";
    const ToolOptions required = read(tools + R"("tool_choice":"required")").tools;
    try {
      tool_grammar(required, ToolFormat::kHermes);
      ADD_FAILURE() << "accepted: " << parameters;
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status, 400);
      EXPECT_EQ(error.param, "tools[1].function.parameters") << error.what();
    }
    // It is not asked for.
    EXPECT_TRUE(tool_grammar(read(tools + "\"tool_choice\":" + tool("f")).tools,
                             ToolFormat::kHermes) != nullptr);
  }
}

}  // namespace
}  // namespace nibble::serve
