#include <string>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/ordered_json.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/matcher.h"
#include "text/grammar/regex_grammar.h"
#include "text/grammar/schema_place.h"
#include "text/grammar/token_mask.h"

// What a grammar may cost: to be built, and for a text.
namespace nibble::text {
namespace {

using Json = nlohmann::ordered_json;

std::string repeat(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    out += text;
  }
  return out;
}

// Steps that reading `bytes` bytes takes.
std::int64_t steps_of(const std::shared_ptr<const Grammar>& grammar, std::size_t bytes) {
  GrammarMatcher matcher(grammar);
  matcher.allow_bytes(1'000'000);
  const std::int64_t before = matcher.steps_left();
  GrammarMatcher::State state = matcher.start();
  for (std::size_t i = 0; i < bytes; ++i) {
    state = matcher.next(state, 'a');
  }
  EXPECT_NE(state, GrammarMatcher::kDead);
  return before - matcher.steps_left();
}

TEST(GrammarBudget, IsSpentOnAmbiguity) {
  const auto plain = steps_of(parse_regex_grammar("a{1,2000}"), 500);
  const auto ambiguous = steps_of(parse_regex_grammar("(a{1,100}){1,20}"), 500);
  EXPECT_LT(plain, 20 * 500);
  EXPECT_GT(ambiguous, 100 * plain);
}

TEST(GrammarBudget, EndsAText) {
  const auto grammar = parse_regex_grammar("(.{1,100}){1,90}");
  GrammarMatcher matcher(grammar);
  GrammarMatcher::State state = matcher.start();
  const auto read = [&] {
    for (int i = 0; i < 10'000; ++i) {
      state = matcher.next(state, 'a');
    }
  };
  try {
    read();
    FAIL() << "was read";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);  // 400: the grammar is the client's
    EXPECT_NE(std::string_view(error.what()).find(" ways "), std::string_view::npos);
  }
}

TEST(GrammarBudget, GrowsWithTheText) {
  const auto tree =
      std::make_shared<const TokenTree>(std::vector<std::string>{"a", "aa", "aaaaaaaaaaaaaaaa"});
  GrammarConstraint constraint(parse_regex_grammar("(a|b|ab){1,2000}"), tree);
  for (int i = 0; i < 60; ++i) {  // beyond what is given to start with
    EXPECT_TRUE(allows(constraint.mask(), 2));
    constraint.accept(2);
  }
  EXPECT_TRUE(constraint.complete());
}

// The work for a state does not depend on how many bytes lead out of it alike.
TEST(GrammarBudget, BytesThatAreAlikeAreReadOnce) {
  GrammarMatcher matcher(parse_regex_grammar("[^\\n]{3}"));
  const GrammarMatcher::State start = matcher.start();
  const GrammarMatcher::State behind = matcher.next(start, 'a');
  const std::int64_t before = matcher.steps_left();
  for (int byte = 0x20; byte < 0x7f; ++byte) {
    EXPECT_EQ(matcher.next(start, static_cast<std::uint8_t>(byte)), behind);
  }
  EXPECT_EQ(matcher.steps_left(), before);
  EXPECT_EQ(matcher.next(start, '\n'), GrammarMatcher::kDead);
}

TEST(GrammarBudget, RefusesLargeGrammars) {
  const auto refusal = [](const auto& make) {
    try {
      make();
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal([] { parse_regex_grammar(repeat("a{2000}", 200)); }).find("too large"),
            std::string::npos);
  EXPECT_NE(refusal([] { parse_gbnf("root ::= " + repeat("\"a\" ", 200'001)); }).find("too large"),
            std::string::npos);
  EXPECT_NE(refusal([] {
              json_schema_grammar({{"enum", Json(std::vector<int>(50'001, 100))}});
            }).find("too large"),
            std::string::npos);
  EXPECT_NE(refusal([] {
              GrammarMatcher matcher(parse_regex_grammar("(((a?){300}){300}){2}"));
            }).find("ways"),
            std::string::npos);
}

TEST(JsonSchema, RefusesATypeThatStandsTwice) {
  EXPECT_THROW(json_schema_grammar(Json::parse(R"({"type": ["string", "null", "string"]})")),
               core::Error);
}

TEST(SchemaPointers, FollowTheRulesOfJsonPointers) {
  const Json document = Json::parse(R"({"a": [10, {"b/c": 1, "d~e": 2}], "": {"": 3}, "7": 4})");
  SchemaPointers pointers(document);
  for (const char* pointer : {"", "/a", "/a/0", "/a/1/b~1c", "/a/1/d~0e", "/", "//", "/7"}) {
    ASSERT_NE(pointers.find(pointer), nullptr) << pointer;
    EXPECT_EQ(*pointers.find(pointer), document.at(Json::json_pointer(pointer))) << pointer;
  }
  for (const char* pointer : {"a", "/b", "/a/2", "/a/-", "/a/00", "/a/1x", "/a/", "/a/0/0",
                              "/a/1/d~2e", "/a/1/d~", "/7/x"}) {
    EXPECT_EQ(pointers.find(pointer), nullptr) << pointer;
  }
}

TEST(SchemaPlace, IsSpelledFromItsSteps) {
  const SchemaPlace root{nullptr, "#"};
  const SchemaPlace list = root / "anyOf";
  const SchemaPlace third = list / 2;
  EXPECT_EQ((third / "items").to_string(), "#/anyOf/2/items");
  EXPECT_EQ(root.to_string(), "#");
}

}  // namespace
}  // namespace nibble::text
