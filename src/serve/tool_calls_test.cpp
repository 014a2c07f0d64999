#include "serve/tool_calls.h"

#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

// What is found in the texts of models, whole and cut anywhere.
namespace nibble::serve {
namespace {

ToolCallOptions hermes() {
  return {ToolFormat::kHermes, {"weather", "clock-2"}, true};
}

ToolCallOptions llama() {
  return {ToolFormat::kLlama, {"weather", "clock-2"}, true};
}

// One line for what was found: the content, and each call as [id name arguments].
std::string summary(const ToolText& text) {
  std::string line = text.content;
  for (const ToolCall& call : text.calls) {
    line += "[" + call.id + " " + call.name + " " + call.arguments + "]";
  }
  return line;
}

void append(ToolText& to, const ToolText& more) {
  to.content += more.content;
  to.calls.insert(to.calls.end(), more.calls.begin(), more.calls.end());
}

// Of the text in pieces of the sizes that `size` gives.
template <typename Size>
std::string found(const std::string& text, const ToolCallOptions& options, Size size) {
  ToolCallReader reader(options, "c");
  ToolText all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = size();
    append(all, reader.add(std::string_view(text).substr(at, bytes)));
    at += bytes;
  }
  append(all, reader.finish());
  return summary(all);
}

std::string found(const std::string& text, const ToolCallOptions& options) {
  return found(text, options, [&] { return text.size(); });
}

constexpr const char* kWeather =
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
constexpr const char* kClock = "<tool_call>{\"arguments\":{},\"name\":\"clock-2\"}</tool_call>";

struct Case {
  std::string text;
  std::string summary;
};

std::vector<Case> hermes_cases() {
  const std::string weather = kWeather;
  const std::string clock = kClock;
  const std::string found_weather = "[c0 weather {\"city\": \"Oslo\"}]";
  return {
      {"", ""},
      {"Hello <b>there</b>.\n\n", "Hello <b>there</b>.\n\n"},
      {weather, found_weather},
      {"\n" + weather + "\n" + clock + "\n ", found_weather + "[c1 clock-2 {}]"},
      {"I look.\n" + weather, "I look." + found_weather},
      {weather + "\nDone \n", "Done \n" + found_weather},
      {"a <tool_call" + weather, "a <tool_call" + found_weather},
      {"a <<tool_call>{\"name\":\"clock-2\"}</tool_call>", "a <[c0 clock-2 {}]"},
      {"a <tool_calls> <", "a <tool_calls> <"},
      // No end mark, or a part of it.
      {"<tool_call>{\"name\":\"clock-2\",\"arguments\":{}}", "[c0 clock-2 {}]"},
      {"<tool_call>{\"name\":\"clock-2\",\"arguments\":{}}\n</tool_", "[c0 clock-2 {}]"},
      {"<tool_call>{\"name\":\"clock-2\",\"argu", "<tool_call>{\"name\":\"clock-2\",\"argu"},
      // Marks, quotes and escapes in strings.
      {"<tool_call>{\"name\":\"weather\",\"arguments\":{\"a\":\"</tool_call>\\\"\\\\\"}}</"
       "tool_call>",
       "[c0 weather {\"a\":\"</tool_call>\\\"\\\\\"}]"},
      {"<tool_call>{\"name\":\"weather\",\"x\":\"}\\\"\",\"arguments\":{\"a\":[{\"name\":1}, "
       "2e3]}, "
       "\"n\" : -1 ,\"t\":true}</tool_call>",
       "[c0 weather {\"a\":[{\"name\":1}, 2e3]}]"},
      // What is no call stays as it is; the next call is found.
      {" <tool_call>{\"name\": \"weather\", }</tool_call>\n" + clock,
       " <tool_call>{\"name\": \"weather\", }</tool_call>[c0 clock-2 {}]"},
      {"<tool_call>{\"name\": \"weather}\n</tool_call>" + clock,
       "<tool_call>{\"name\": \"weather}\n</tool_call>[c0 clock-2 {}]"},
      {"<tool_call>{\"name\":\"Weather\",\"arguments\":{}}</tool_call>",
       "<tool_call>{\"name\":\"Weather\",\"arguments\":{}}</tool_call>"},
      {"<tool_call>{\"name\":\"weather\",\"arguments\":\"{}\"}</tool_call>",
       "<tool_call>{\"name\":\"weather\",\"arguments\":\"{}\"}</tool_call>"},
      {"<tool_call>{\"arguments\":{}}</tool_call>", "<tool_call>{\"arguments\":{}}</tool_call>"},
      {"<tool_call>[]</tool_call>", "<tool_call>[]</tool_call>"},
      {"<tool_call></tool_call>", "<tool_call></tool_call>"},
      {"<tool_call>{} {}</tool_call>", "<tool_call>{} {}</tool_call>"},
      {"<tool_call>{\"name\":\"weather\",\"arguments\":{\"a\":\"\xff\"}}</tool_call>",
       "<tool_call>{\"name\":\"weather\",\"arguments\":{\"a\":\"\xff\"}}</tool_call>"},
  };
}

std::vector<Case> llama_cases() {
  const std::string call = "{\"name\": \"weather\", \"parameters\": {\"city\": \"Oslo\"}}";
  const std::string found_call = "[c0 weather {\"city\": \"Oslo\"}]";
  return {
      {"", ""},
      {" \n", " \n"},
      {call, found_call},
      {"\n " + call + "\n", found_call},
      {"{\"name\":\"clock-2\",\"arguments\":{}}", "[c0 clock-2 {}]"},
      {"I call " + call, "I call " + call},
      {call + " is a call", call + " is a call"},
      {call + call, call + call},
      {"{\"name\": \"nothing\", \"parameters\": {}}",
       "{\"name\": \"nothing\", \"parameters\": {}}"},
      {"{ braces", "{ braces"},
      {fmt::format(" {}", kWeather), fmt::format(" {}", kWeather)},
  };
}

TEST(ToolCalls, AreFoundInHermesTexts) {
  for (const Case& one : hermes_cases()) {
    EXPECT_EQ(found(one.text, hermes()), one.summary) << one.text;
  }
}

TEST(ToolCalls, AreFoundInLlamaTexts) {
  for (const Case& one : llama_cases()) {
    EXPECT_EQ(found(one.text, llama()), one.summary) << one.text;
  }
}

TEST(ToolCalls, DoNotDependOnHowTheTextIsCut) {
  const auto check = [](const Case& one, const ToolCallOptions& options) {
    EXPECT_EQ(found(one.text, options, [] { return 1u; }), one.summary) << one.text;
    for (std::size_t at = 1; at < one.text.size(); ++at) {
      std::size_t next = at;  // two pieces
      const auto size = [&] { return std::exchange(next, one.text.size()); };
      EXPECT_EQ(found(one.text, options, size), one.summary) << one.text << " at " << at;
    }
    std::mt19937 random(7);
    for (int i = 0; i < 20; ++i) {
      const auto size = [&] { return 1 + random() % 9; };
      EXPECT_EQ(found(one.text, options, size), one.summary) << one.text;
    }
  };
  for (const Case& one : hermes_cases()) {
    check(one, hermes());
  }
  for (const Case& one : llama_cases()) {
    check(one, llama());
  }
}

// Texts of random parts of calls: what is found in pieces is what is found in the whole, and
// without a call nothing is lost.
TEST(ToolCalls, RandomTextsAreTheSameInPieces) {
  const std::vector<std::string> parts = {"<tool_call>",
                                          "</tool_call>",
                                          "{\"name\": \"weather\"",
                                          ", \"arguments\": {",
                                          "}}",
                                          "\"",
                                          "\\",
                                          "\n",
                                          " ",
                                          "<",
                                          "text",
                                          kWeather,
                                          kClock};
  std::mt19937 random(11);
  int calls = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (std::size_t n = random() % 8; n > 0; --n) {
      text += parts[random() % parts.size()];
    }
    const std::string whole = found(text, hermes());
    EXPECT_EQ(found(text, hermes(), [&] { return 1 + random() % 5; }), whole) << text;
    if (whole.find("[c0") == std::string::npos) {
      EXPECT_EQ(whole, text);
    } else {
      ++calls;
    }
  }
  EXPECT_GT(calls, 500);
}

// Text is held back only while it may belong to a call.
TEST(ToolCalls, TextIsNotHeldBackWithoutNeed) {
  ToolCallReader reader(hermes(), "c");
  EXPECT_EQ(reader.add("Hello").content, "Hello");
  EXPECT_EQ(reader.add(" <tool").content, "");
  EXPECT_EQ(reader.add("s").content, " <tools");
  EXPECT_EQ(reader.add(" <tool_call>{}").content, "");
  EXPECT_EQ(reader.add("</tool_call>").content, " <tool_call>{}</tool_call>");
  EXPECT_EQ(summary(reader.add(kClock)), "[c0 clock-2 {}]") << "a call comes with its end";
  ToolCallReader of_llama(llama(), "c");
  EXPECT_EQ(of_llama.add("\nHello {").content, "\nHello {");
  ToolCallReader of_none({}, "c");
  EXPECT_EQ(of_none.add(" <tool_call>").content, " <tool_call>");
}

TEST(ToolCalls, OnlyTheFirstIsTakenWhereOneIsAskedFor) {
  ToolCallOptions options = hermes();
  options.parallel = false;
  const std::string text = fmt::format("a{}\n{}b", kClock, kWeather);
  EXPECT_EQ(found(text, options), "ab[c0 clock-2 {}]");
}

TEST(ToolCalls, NestAsDeepAsTheyLike) {
  const std::string deep = "{\"a\":" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  const std::string text =
      "<tool_call>{\"arguments\":" + deep + ",\"name\":\"weather\"}</tool_call>";
  EXPECT_EQ(found(text, hermes()), "[c0 weather " + deep + "]");
}

}  // namespace
}  // namespace nibble::serve
