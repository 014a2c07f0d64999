#include "text/chat_template.h"

#include <string>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/ordered_json.h"

namespace nibble::text {
namespace {

using core::Error;
using core::ErrorKind;

TEST(ChatTemplate, PassesTheOptionsOn) {
  const ChatTemplate chat_template(
      "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ tools[0].name }}"
      "{{ documents[0] }}{{ add_generation_prompt }}{{ mood }}{{ strftime_now('%Y') }}");
  ChatTemplate::Options options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  options.tools = OrderedJson::parse(R"([{"name": "clock"}])");
  options.documents = OrderedJson::parse(R"(["paper"])");
  options.extra = OrderedJson::parse(R"({"mood": "calm"})");
  options.add_generation_prompt = false;
  options.now_unix_seconds = 86400 * 366;
  const OrderedJson messages = OrderedJson::parse(R"([{"role": "user", "content": "hi"}])");
  EXPECT_EQ(chat_template.render(messages, options), "<s>hi</s>clockpaperFalsecalm1971");
}

TEST(ChatTemplate, LeavesOutWhatTheOptionsDoNotGive) {
  const ChatTemplate chat_template(
      "{{ bos_token is defined }} {{ tools is none }} {{ documents is none }} {{ extra is defined "
      "}}");
  EXPECT_EQ(chat_template.render(OrderedJson::array(), {}), "False True True False");
}

TEST(ChatTemplate, KeepsTheOrderOfKeys) {
  const ChatTemplate chat_template("{{ tools | tojson }}");
  ChatTemplate::Options options;
  options.tools = OrderedJson::parse(R"([{"z": 1, "a": {"y": 2, "b": 3}}])");
  EXPECT_EQ(chat_template.render(OrderedJson::array(), options),
            R"([{"z": 1, "a": {"y": 2, "b": 3}}])");
}

TEST(ChatTemplate, RefusesTextThatIsNotUtf8) {
  EXPECT_THROW(ChatTemplate("a\xff"), Error);
  const ChatTemplate chat_template("{{ messages[0] }}");
  OrderedJson messages = OrderedJson::array();
  messages.push_back("caf\xe9");
  try {
    chat_template.render(messages, {});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  }
}

TEST(ChatTemplate, RefusesMessagesThatAreNoArray) {
  EXPECT_THROW(ChatTemplate("x").render(OrderedJson::object(), {}), Error);
}

TEST(ChatTemplate, RendersTheSameTwice) {
  const ChatTemplate chat_template(
      "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ "
      "ns.n }}");
  const OrderedJson messages = OrderedJson::parse("[1, 2, 3]");
  EXPECT_EQ(chat_template.render(messages, {}), "3");
  EXPECT_EQ(chat_template.render(messages, {}), "3");
}

}  // namespace
}  // namespace nibble::text
