#include "jinja/template.h"

#include <string>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/ordered_json.h"
#include "jinja/golden_files.h"

namespace nibble::jinja {
namespace {

using core::Error;
using core::ErrorKind;

std::string error_of(const std::string& source) {
  try {
    const std::string output = render_with(Template(source), {{"messages", OrderedJson::array()}});
    return "no error, but: " + output;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel) << source;
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << source;
    return error.what();
  }
}

// Jinja2's result: the text, what raise_exception was given, or the fact that it fails.
void expect_result(const OrderedJson& expected, const std::string& source,
                   const OrderedJson& variables, std::int64_t now) {
  try {
    const std::string output = render_with(Template(source), variables, now);
    EXPECT_TRUE(expected.contains("output")) << "instead of failing, gave: " << output;
    EXPECT_EQ(output, expected.value("output", ""));
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_FALSE(expected.contains("output")) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    const bool raised = expected.contains("raised");
    EXPECT_EQ(error.kind(), raised ? ErrorKind::kUsage : ErrorKind::kInvalidModel) << message;
    EXPECT_NE(message.find(expected.value("raised", "chat template ")), std::string::npos)
        << message;
  }
}

TEST(Template, GivesWhatJinjaGivesForExpressionsAndStatements) {
  const OrderedJson goldens = read_goldens("expressions.json");
  ASSERT_GT(goldens["cases"].size(), 500U);
  for (const OrderedJson& golden : goldens["cases"]) {
    const auto source = golden["template"].get<std::string>();
    SCOPED_TRACE(source);
    expect_result(golden, source, goldens["variables"], goldens["now"].get<std::int64_t>());
  }
}

void expect_results_of_conversations(const std::string& file) {
  const OrderedJson goldens = read_goldens(file);
  ASSERT_GT(goldens["templates"].size(), 8U);
  for (const OrderedJson& golden : goldens["templates"]) {
    auto result = golden["results"].begin();
    for (const OrderedJson& messages : goldens["conversations"]) {
      for (const OrderedJson& variant : goldens["variants"]) {
        SCOPED_TRACE(golden["name"].get<std::string>() + " with " + messages.dump());
        OrderedJson variables = variant;
        variables["messages"] = messages;
        expect_result(*result++, golden["template"].get<std::string>(), variables,
                      goldens["now"].get<std::int64_t>());
      }
    }
  }
}

TEST(Template, GivesWhatJinjaGivesForWholeConversations) {
  expect_results_of_conversations("conversations.json");
  expect_results_of_conversations("more_families.json");
}

TEST(Template, SaysWhereAndWhatIsWrong) {
  EXPECT_EQ(error_of("line\n  {{ 1 + }}"),
            "chat template line 2, column 10: expected an expression, found '}}'");
  EXPECT_EQ(error_of("{{ messages.x.y }}"),
            "chat template line 1, column 15: a list has no attribute 'x'");
  EXPECT_EQ(
      error_of("\n{% if true %}x"),
      "chat template line 2, column 12: the block 'if' is not closed; '{% endif %}' is missing");
  EXPECT_EQ(error_of("{{ 'a' | shout }}"),
            "chat template line 1, column 10: the filter 'shout' is not supported by Nibble's "
            "templates");
  EXPECT_EQ(error_of("{{ none + 1 }}"),
            "chat template line 1, column 9: cannot compute NoneType + int");
  EXPECT_EQ(error_of("{{ 'a'.split('') }}"),
            "chat template line 1, column 13: split: the separator is empty");
  EXPECT_EQ(error_of("{% set x = [] %}{{ x.append(1) }}"),
            "chat template line 1, column 28: a list has no attribute 'append' (templates cannot "
            "change values)");
}

// Parts of Jinja that published chat templates do without.
TEST(Template, RefusesTheRestOfJinja) {
  const std::string end = " is not supported by Nibble's templates";
  for (const char* filter : {"abs", "batch(2)", "center", "e", "escape", "float", "format(1)",
                             "max", "round", "sum", "truncate", "wordcount", "xmlattr"}) {
    const std::string name = std::string(filter).substr(0, std::string(filter).find('('));
    EXPECT_EQ(error_of("{{ 1 | " + std::string(filter) + " }}"),
              "chat template line 1, column 8: the filter '" + name + "'" + end);
  }
  for (const char* tag : {"block x", "call m()", "do x", "extends 'x'", "filter upper",
                          "import 'x' as y", "include 'x'", "raw", "with a = 1"}) {
    const std::string name = std::string(tag).substr(0, std::string(tag).find(' '));
    EXPECT_EQ(error_of("{% " + std::string(tag) + " %}"),
              "chat template line 1, column 4: the tag '" + name + "'" + end);
  }
  EXPECT_EQ(error_of("{{ 1 is sameas 1 }}"),
            "chat template line 1, column 9: the test 'sameas'" + end);
  EXPECT_EQ(error_of("{{ '%s' % 1 }}"), "chat template line 1, column 9: formatting with %" + end);
  EXPECT_EQ(error_of("{{ 'a'.rsplit() }}"),
            "chat template line 1, column 14: a str has no attribute 'rsplit' that Nibble's "
            "templates support");
  EXPECT_EQ(error_of("{{ 1 < 2 < 3 }}"),
            "chat template line 1, column 10: a chain of comparisons" + end);
  EXPECT_EQ(error_of("{{ {1: 2} }}"),
            "chat template line 1, column 5: the keys of a dict must be strings, got a int");
}

TEST(Template, ReportsWhatATemplateRaisesAsAWrongCall) {
  try {
    render("{{ raise_exception('no\nsystem turn') }}");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_STREQ(error.what(), "the chat template refuses this conversation: no\\x0asystem turn");
  }
}

}  // namespace
}  // namespace nibble::jinja
