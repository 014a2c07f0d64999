#include <set>

#include "serve/service_for_tests.h"

// Chats with tools on loopback with the demo model, which knows of none: its calls are asked for by
// grammars, or its tokens are given by the test.
namespace nibble::serve {
namespace {

using core::Json;

// In the shape of Hermes, and of Llama.
constexpr const char* kHermesTemplate =
    "{% if tools %}<|bos|>system: Call these as <tool_call>JSON</tool_call>:\n"
    "{% for t in tools %}{{ t | tojson }}\n{% endfor %}{% endif %}"
    "{% for m in messages %}<|bos|>{{ m.role }}: {{ m.content }}"
    "{% for c in m.tool_calls or [] %}{% set c = c.function %}"
    "<tool_call>{{ '{\"name\": \"' ~ c.name ~ '\", \"arguments\": ' ~ (c.arguments | tojson) }}}"
    "</tool_call>{% endfor %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|bos|>assistant:{% endif %}";
constexpr const char* kLlamaTemplate =
    "{% if tools %}Answer with {\"name\": function, \"parameters\": arguments}: {{ tools | "
    "tojson(indent=4) }}{% endif %}{% for m in messages %}<|bos|>{{ m.role }}: {{ m.content }}\n"
    "{% endfor %}<|bos|>assistant:";

constexpr const char* kUser = R"("messages":[{"role":"user","content":"Weather?"}])";
constexpr const char* kTools =
    R"("tools":[{"type":"function","function":{"name":"weather","description":"It says so.",)"
    R"("parameters":{"type":"object","properties":{"city":{"enum":["Oslo","Rome"]},)"
    R"("days":{"type":"integer","minimum":1,"maximum":9}},"required":["city","days"]}}},)"
    R"({"type":"function","function":{"name":"clock"}}])";
constexpr const char* kNamed = R"("tool_choice":{"type":"function","function":{"name":"weather"}})";

// What the deltas of one choice add up to.
struct Streamed {
  std::string content;
  Json calls = Json::array();
  std::vector<std::string> reasons;
};

Streamed streamed(const RawClient::Answer& answer, int choice = 0) {
  Streamed all;
  const auto events = events_of(answer.body);
  EXPECT_EQ(events.back(), "[DONE]");
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    const Json one = core::parse_json(events[i], "event").at("choices").at(0);
    if (one.at("index") != choice) {
      continue;
    }
    const Json& delta = one.at("delta");
    all.content += delta.value("content", "");
    for (const Json& call : delta.value("tool_calls", Json::array())) {
      const auto index = call.at("index").get<std::size_t>();
      if (index == all.calls.size()) {
        all.calls.push_back(
            {{"id", call.at("id")}, {"type", call.at("type")}, {"function", call.at("function")}});
        EXPECT_EQ(call.at("function").at("arguments"), "") << "the name comes first";
      } else {
        EXPECT_EQ(index + 1, all.calls.size());
        EXPECT_FALSE(call.contains("id"));
        all.calls[index]["function"]["arguments"] =
            all.calls[index]["function"]["arguments"].get<std::string>() +
            call.at("function").at("arguments").get<std::string>();
      }
    }
    if (!one.at("finish_reason").is_null()) {
      all.reasons.push_back(one.at("finish_reason"));
    }
  }
  return all;
}

std::set<std::string> take_ids(Json& calls) {
  std::set<std::string> ids;
  for (Json& call : calls) {
    EXPECT_TRUE(ids.insert(call.at("id")).second) << "an id stands twice";
    EXPECT_EQ(call.at("id").get<std::string>().rfind("call_", 0), 0u);
    call.erase("id");
  }
  return ids;
}

class ToolServiceTest : public ServiceTest {
 protected:
  ToolServiceTest() { options_.chat_template = kHermesTemplate; }

  RawClient::Answer chat(const std::string& fields) const {
    return post("/v1/chat/completions", "{" + std::string(kUser) + "," + fields + "}");
  }

  // What the next request writes, whatever the model thinks.
  void write(const std::string& text) {
    script_->tokens = demo()->tokenizer->encode(text, {.add_special = false});
    script_->tokens.push_back(id_of("<|endoftext|>"));
    script_->next = 0;
  }
};

// The schema leaves 18 calls: any seed gives one of them.
TEST_F(ToolServiceTest, NamedToolsAreCalled) {
  start();
  const std::string fields = std::string(kTools) + "," + kNamed + R"(,"n":3,"seed":5)";
  const Json whole = json(chat(fields));
  const auto stream = chat(fields + R"(,"stream":true,"stream_options":{"include_usage":false})");
  std::set<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    const Json& choice = whole.at("choices").at(static_cast<std::size_t>(i));
    EXPECT_EQ(choice.at("finish_reason"), "tool_calls");
    EXPECT_TRUE(choice.at("message").at("content").is_null());
    Json calls = choice.at("message").at("tool_calls");
    ASSERT_EQ(calls.size(), 1u);
    EXPECT_EQ(calls[0].at("type"), "function");
    EXPECT_EQ(calls[0].at("function").at("name"), "weather");
    const Json arguments =
        core::parse_json(calls[0].at("function").at("arguments").get<std::string>(), "arguments");
    EXPECT_TRUE(arguments.at("city") == "Oslo" || arguments.at("city") == "Rome");
    EXPECT_GE(arguments.at("days"), 1);
    EXPECT_LE(arguments.at("days"), 9);
    Streamed parts = streamed(stream, i);
    EXPECT_EQ(parts.content, "");
    EXPECT_EQ(parts.reasons, std::vector<std::string>{"tool_calls"});
    ids.merge(take_ids(calls));
    ids.merge(take_ids(parts.calls));
    EXPECT_EQ(parts.calls, calls);
  }
  EXPECT_EQ(ids.size(), 6u);
}

TEST_F(ToolServiceTest, RequiredToolsAreCalled) {
  start();
  const Json answer = json(chat(
      std::string(kTools) + R"(,"tool_choice":"required","parallel_tool_calls":false,"seed":1)"));
  const Json& message = answer.at("choices")[0].at("message");
  ASSERT_EQ(message.at("tool_calls").size(), 1u);
  const std::string name = message.at("tool_calls")[0].at("function").at("name");
  EXPECT_TRUE(name == "weather" || name == "clock");
  // A text that ends too early has no call.
  const Json cut = json(chat(std::string(kTools) + "," + kNamed + R"(,"max_tokens":3)"));
  EXPECT_EQ(cut.at("choices")[0].at("finish_reason"), "length");
  EXPECT_FALSE(cut.at("choices")[0].at("message").contains("tool_calls"));
  EXPECT_EQ(cut.at("choices")[0].at("message").at("content").get<std::string>().rfind("<", 0), 0u);
}

TEST_F(ToolServiceTest, CallsOfTheModelAreFound) {
  start();
  const std::string call =
      "<tool_call>\n{\"name\": \"clock\", \"arguments\": {\"a\": \"\xc3\xa9\"}}\n";
  struct Case {
    std::string text;
    std::string content;
    std::vector<std::string> names;
    std::string reason;
  };
  for (const Case& one : std::vector<Case>{
           {"Hello <tool>. \n", "Hello <tool>. \n", {}, "stop"},
           {"I look. " + call + "</tool_call>", "I look.", {"clock"}, "tool_calls"},
           {call + "</tool_call>\n" + call + "</tool_call>", "", {"clock", "clock"}, "tool_calls"},
           {call, "", {"clock"}, "tool_calls"},
           {"<tool_call>{\"name\": \"unknown\"}</tool_call>",
            "<tool_call>{\"name\": \"unknown\"}</tool_call>",
            {},
            "stop"}}) {
    const std::string fields = std::string(kTools) + R"(,"temperature":0,"max_tokens":200)";
    write(one.text);
    const Json choice = json(chat(fields)).at("choices")[0];
    const Json& message = choice.at("message");
    EXPECT_EQ(message.at("content").is_null() ? "" : message.at("content"), one.content);
    EXPECT_EQ(message.at("content").is_null(), one.content.empty());
    EXPECT_EQ(choice.at("finish_reason"), one.reason) << one.text;
    Json calls = message.value("tool_calls", Json::array());
    EXPECT_EQ(message.contains("tool_calls"), !one.names.empty());
    ASSERT_EQ(calls.size(), one.names.size()) << one.text;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      EXPECT_EQ(calls[i].at("function").at("name"), one.names[i]);
      EXPECT_EQ(calls[i].at("function").at("arguments"), "{\"a\": \"\xc3\xa9\"}");
    }
    take_ids(calls);
    write(one.text);
    Streamed parts = streamed(chat(fields + R"(,"stream":true)"));
    EXPECT_EQ(parts.content, one.content) << one.text;
    take_ids(parts.calls);
    EXPECT_EQ(parts.calls, calls);
    EXPECT_EQ(parts.reasons, std::vector<std::string>{one.reason});
    // Where the client wants no calls, the same text is text.
    write(one.text);
    const Json none = json(chat(fields + R"(,"tool_choice":"none")")).at("choices")[0];
    EXPECT_EQ(none.at("message").at("content"), one.text);
    EXPECT_EQ(none.at("finish_reason"), "stop");
  }
}

TEST_F(ToolServiceTest, LlamaCallsAreFoundToo) {
  options_.chat_template = kLlamaTemplate;
  start();
  const Json named = json(chat(std::string(kTools) + "," + kNamed));
  EXPECT_EQ(named.at("choices")[0].at("message").at("tool_calls")[0].at("function").at("name"),
            "weather");
  write("{\"name\": \"clock\", \"parameters\": {}}");
  const Json found = json(chat(std::string(kTools) + R"(,"temperature":0,"max_tokens":200)"));
  EXPECT_EQ(found.at("choices")[0].at("message").at("tool_calls")[0].at("function"),
            Json({{"name", "clock"}, {"arguments", "{}"}}));
}

// Log probabilities are those of all tokens, also of calls.
TEST_F(ToolServiceTest, CallsHaveLogProbabilities) {
  start();
  const std::string fields = std::string(kTools) + "," + kNamed + R"(,"logprobs":true,"seed":3)";
  const Json whole = json(chat(fields));
  const Json& entries = whole.at("choices")[0].at("logprobs").at("content");
  std::string text;
  for (const Json& entry : entries) {
    text += entry.at("token").get<std::string>();
  }
  EXPECT_EQ(text.rfind("<tool_call>\n{\"name\": \"weather\", \"arguments\": {", 0), 0u) << text;
  Json parts = Json::array();
  int events = 0;
  for (const std::string& event : events_of(chat(fields + R"(,"stream":true)").body)) {
    if (event == "[DONE]") {
      continue;
    }
    const Json one = core::parse_json(event, "event").at("choices").at(0);
    if (!one.at("logprobs").is_null()) {
      ++events;
      for (const Json& entry : one.at("logprobs").at("content")) {
        parts.push_back(entry);
      }
    }
  }
  EXPECT_EQ(parts, entries);
  EXPECT_GT(events, 1) << "they come with their tokens, not with the call";
}

TEST_F(ToolServiceTest, TemplatesSeeToolsAndPastCalls) {
  start();
  const Json answer = json(
      post("/tokenize",
           R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,)"
           R"("tool_calls":[{"id":"c","type":"function","function":{"name":"clock",)"
           R"("arguments":"{\"a\":[1,\"b\"]}"}}]},)"
           R"({"role":"tool","tool_call_id":"c","content":"noon"}],"tools":[{"type":"function",)"
           R"("function":{"name":"clock","description":"Time"}}]})"));
  const auto tokens = answer.at("tokens").get<std::vector<std::int32_t>>();
  EXPECT_EQ(demo()->tokenizer->decode(tokens, false),
            "<|bos|>system: Call these as <tool_call>JSON</tool_call>:\n"
            "{\"type\": \"function\", \"function\": {\"name\": \"clock\", \"description\": "
            "\"Time\", \"parameters\": {\"type\": \"object\", \"properties\": {}}}}\n"
            "<|bos|>user: x\n"
            "<|bos|>assistant: <tool_call>{\"name\": \"clock\", \"arguments\": {\"a\": [1, "
            "\"b\"]}}</tool_call>\n"
            "<|bos|>tool: noon\n<|bos|>assistant:");
}

// What tools and calls say is text, names of parameters too.
TEST_F(ToolServiceTest, ToolsHoldNoControlTokens) {
  start();
  const auto control_tokens = [&](const std::string& fields) {
    const auto tokens =
        json(post("/tokenize", "{" + fields + "}")).at("tokens").get<std::vector<std::int32_t>>();
    return std::count_if(tokens.begin(), tokens.end(),
                         [](std::int32_t token) { return demo()->tokenizer->is_special(token); });
  };
  EXPECT_EQ(control_tokens(std::string(kUser) + "," + kTools), 3) << "those of the template";
  EXPECT_EQ(control_tokens(
                std::string(kUser) +
                R"(,"tools":[{"type":"function","function":{"name":"f","description":"<|bos|>",)"
                R"("parameters":{"properties":{"<|bos|>":{"title":"<|bos|>"},"role":"<|bos|>"},)"
                R"("<|bos|>x":1,"required":["<|bos|>"]}}}])"),
            3);
  EXPECT_EQ(
      control_tokens(R"("messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f",)"
                     R"("arguments":"{\"<|bos|>\":\"<|bos|>\",\"role\":\"<|bos|>\"}"}}]}])"),
      2);
}

TEST_F(ToolServiceTest, WhatCannotBeIsRefused) {
  options_.chat_template = kTemplate;
  start();
  const auto none = chat(kTools);
  is_error(none, 400, "tools", "a template without tools");
  EXPECT_NE(none.body.find("template"), std::string::npos);
  is_error(chat(std::string(kTools) + R"(,"tool_choice":"none")"), 400, "tools", "nor shown");
  service_->drain();
  wait_for_end();

  options_.chat_template = "{{ tools }}<|bos|>";
  start();
  const std::string unknown = chat(kTools).body;
  is_error(chat(kTools), 400, "tools", "a format that is not known");
  EXPECT_NE(unknown.find("does not know"), std::string::npos) << unknown;
  EXPECT_EQ(chat(std::string(kTools) + R"(,"tool_choice":"none","max_tokens":1)").status, 200);
  service_->drain();
  wait_for_end();

  options_.tool_format = ToolFormat::kHermes;
  start();
  EXPECT_EQ(chat(std::string(kTools) + "," + kNamed).status, 200);
  const std::string tools =
      R"("tools":[{"type":"function","function":{"name":"weather","parameters":{"not":{}}}}],)";
  is_error(chat(tools + kNamed), 400, "tools[0].function.parameters", "a schema without grammar");
  EXPECT_EQ(chat(tools + R"("max_tokens":1)").status, 200) << "no grammar is needed";
}

}  // namespace
}  // namespace nibble::serve
