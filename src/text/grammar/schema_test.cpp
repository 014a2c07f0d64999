#include <set>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/ordered_json.h"
#include "core/random.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/integer_range.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/matcher.h"
#include "text/grammar/regex_grammar.h"

namespace nibble::text {
namespace {

using Json = nlohmann::ordered_json;

bool matches(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  GrammarMatcher matcher(grammar);
  GrammarMatcher::State state = matcher.start();
  for (const char c : text) {
    state = matcher.next(state, static_cast<std::uint8_t>(c));
  }
  return matcher.complete(state);
}

bool allows(const char* schema, std::string_view text) {
  return matches(json_schema_grammar(Json::parse(schema)), text);
}

std::string refusal(const char* schema) {
  try {
    json_schema_grammar(Json::parse(schema));
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

// A text that the grammar has, drawn at random; empty when it grows too long.
std::string random_text(const std::shared_ptr<const Grammar>& grammar, core::Random& random) {
  GrammarMatcher matcher(grammar);
  std::string text;
  GrammarMatcher::State state = matcher.start();
  while (text.size() < 400) {
    if (matcher.complete(state) && random.below(3) == 0) {
      return text;
    }
    std::vector<std::uint8_t> next;
    for (int byte = 0; byte < 256; ++byte) {
      if (matcher.next(state, static_cast<std::uint8_t>(byte)) != GrammarMatcher::kDead) {
        next.push_back(static_cast<std::uint8_t>(byte));
      }
    }
    if (next.empty()) {
      return text;
    }
    const std::uint8_t byte = next[random.below(next.size())];
    text += static_cast<char>(byte);
    state = matcher.next(state, byte);
  }
  return "";
}

TEST(IntegerRange, IsTheIntegersBetween) {
  core::Random random(2);
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges = {
      {0, 0}, {-1, 1}, {9, 10}, {0, 99}, {-120, -7}, {17, 1203}, {-5, 999}, {1000, 1000}};
  for (int i = 0; i < 40; ++i) {
    const auto a = static_cast<std::int64_t>(random.below(3000)) - 1500;
    const auto b = static_cast<std::int64_t>(random.below(3000)) - 1500;
    ranges.emplace_back(std::min(a, b), std::max(a, b));
  }
  for (const auto& [low, high] : ranges) {
    GrammarBuilder builder;
    const std::int32_t root = builder.add_rule();
    builder.add_alternative(root, integer_range(builder, low, high));
    GrammarMatcher matcher(std::make_shared<const Grammar>(builder.build(root)));
    const auto has = [&](const std::string& text) {
      GrammarMatcher::State state = matcher.start();
      for (const char c : text) {
        state = matcher.next(state, static_cast<std::uint8_t>(c));
      }
      return matcher.complete(state);
    };
    for (std::int64_t n = -1700; n <= 1700; ++n) {
      ASSERT_EQ(has(std::to_string(n)), n >= low && n <= high)
          << n << " in " << low << ", " << high;
    }
    EXPECT_FALSE(has("-0") || has("00") || has("007") || has(""));
  }
}

TEST(RegexGrammar, KnowsTheCommonSyntax) {
  const std::pair<const char*, std::pair<const char*, const char*>> cases[] = {
      {"^[a-z]\\w{2,3}$", {"ab_9", "a1"}},
      {"(?:ab|c)+?", {"abcab", "a"}},
      {"\\d+\\.\\d*", {"12.", ".5"}},
      {"[^\\d\\s]", {"x", "4"}},
      {"\\u00e9\\x41",
       {"\xc3\xa9"
        "A",
        "eA"}},
      {".{2}",
       {"\xf0\x9f\x98\x80"
        "a",
        "a"}},
      {"a{2}b{0,1}c{1,}", {"aacc", "aab"}},
      {"", {"", "a"}},
      {"[\\]\\-a]+", {"]-a", "b"}},
      {"\\$\\^\\(", {"$^(", "$"}}};
  for (const auto& [expression, texts] : cases) {
    const auto grammar = parse_regex_grammar(expression);
    EXPECT_TRUE(matches(grammar, texts.first)) << expression;
    EXPECT_FALSE(matches(grammar, texts.second)) << expression;
  }
}

TEST(RegexGrammar, RefusesWhatItDoesNotKnow) {
  for (const char* expression : {"(?=a)", "(a", "a)", "[a", "a**", "*a", "\\bx", "(a)\\1", "a{3,2}",
                                 "[z-a]", "a^b", "a$b", "\\p{L}", "a{2001}", "\\", "a{", "\xff"}) {
    EXPECT_THROW(parse_regex_grammar(expression), core::Error) << expression;
  }
  EXPECT_THROW(parse_regex_grammar(std::string(60000, '(')), core::Error);
}

TEST(JsonSchema, ObjectsHaveTheirMembers) {
  const char* schema = R"({"type": "object", "properties": {
      "name": {"type": "string", "maxLength": 3}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
      "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2}},
      "required": ["name"]})";
  EXPECT_TRUE(allows(schema, R"({"name": "x", "age": 7, "tags": ["a", "b"]})"));
  EXPECT_TRUE(allows(schema, "{\n  \"name\": \"\\u00e9\\n\"\n}"));
  EXPECT_FALSE(allows(schema, R"({"age": 7})"));
  EXPECT_FALSE(allows(schema, R"({"age": 7, "name": "x"})"));  // in another order
  EXPECT_FALSE(allows(schema, R"({"name": "x", "age": 151})"));
  EXPECT_FALSE(allows(schema, R"({"name": "long"})"));
  EXPECT_FALSE(allows(schema, R"({"name": "x", "tags": ["a", "b", "a"]})"));
  EXPECT_FALSE(allows(schema, R"({"name": "x", "more": 1})"));
  EXPECT_FALSE(allows(schema, R"({"name": "x",})"));
}

TEST(JsonSchema, OtherMembersAreNotThoseThatAreKnown) {
  const char* schema = R"({"properties": {"ab": {"type": "null"}, "a": {"type": "null"}},
      "additionalProperties": {"type": "boolean"}})";
  EXPECT_TRUE(allows(schema, R"({"ab":null,"a":null,"abc":true,"b":false,"":true})"));
  EXPECT_TRUE(allows(schema, R"({})"));
  EXPECT_FALSE(allows(schema, R"({"a":true})"));
  EXPECT_FALSE(allows(schema, R"({"b":1})"));
}

TEST(JsonSchema, ListsHaveTheirItems) {
  const char* schema =
      R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}],
      "items": {"type": "boolean"}, "minItems": 1, "maxItems": 4})";
  EXPECT_TRUE(allows(schema, "[1]"));
  EXPECT_TRUE(allows(schema, R"([1, "a"])"));
  EXPECT_TRUE(allows(schema, R"([1, "a", true, false])"));
  EXPECT_FALSE(allows(schema, "[]"));
  EXPECT_FALSE(allows(schema, "[true]"));
  EXPECT_FALSE(allows(schema, R"([1, "a", true, false, true])"));
  EXPECT_TRUE(allows(R"({"type": "array", "maxItems": 0})", "[ ]"));
  EXPECT_TRUE(
      allows(R"({"type": "array", "items": {"type": "null"}, "minItems": 2})", "[null,null,null]"));
  EXPECT_FALSE(allows(R"({"type": "array", "items": {"type": "null"}, "minItems": 2})", "[null]"));
}

TEST(JsonSchema, CombinesRefersAndNests) {
  const char* tree = R"({"$defs": {"node": {"type": "object", "properties": {
      "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["next"]}},
      "$ref": "#/$defs/node"})";
  EXPECT_TRUE(allows(tree, R"({"next": {"next": {"next": null}}})"));
  EXPECT_FALSE(allows(tree, R"({"next": {"next": {}}})"));
  EXPECT_TRUE(allows(R"({"type": ["string", "null"]})", "null"));
  EXPECT_TRUE(allows(R"({"const": {"a": [1, "\""]}})", R"({"a":[1,"\""]})"));
  EXPECT_TRUE(allows(R"({"type": "string", "pattern": "^a\"+$"})", R"("a\"\"")"));
  EXPECT_TRUE(allows(R"({"type": "string", "pattern": "b"})", R"("abc")"));
  EXPECT_TRUE(allows(R"({"type": "string", "format": "date"})", R"("2026-11-22")"));
  EXPECT_FALSE(allows(R"({"type": "string", "format": "date"})", R"("2026-13-22")"));
  EXPECT_TRUE(allows("true", R"([1.5e-3, {"a": -0.25}, "x", null])"));
  EXPECT_TRUE(matches(json_grammar(true), R"({"a": {}})"));
  EXPECT_FALSE(matches(json_grammar(true), "[1]"));
}

TEST(JsonSchema, SaysWhatItCannotKeep) {
  EXPECT_EQ(refusal(R"({"properties": {"a": {"multipleOf": 3}}})"),
            "JSON schema, at #/properties/a: the keyword 'multipleOf' is not supported");
  EXPECT_NE(refusal(R"({"type": "number", "minimum": 1})").find("no integers"), std::string::npos);
  EXPECT_NE(refusal(R"({"$ref": "http://x/y"})").find("within the document"), std::string::npos);
  EXPECT_NE(refusal(R"({"$ref": "#/$defs/x"})").find("not in the document"), std::string::npos);
  EXPECT_NE(refusal(R"({"required": ["a"]})").find("no property"), std::string::npos);
  EXPECT_NE(refusal(R"({"allOf": [{}, {}]})").find("allOf"), std::string::npos);
  EXPECT_NE(refusal(R"({"anyOf": [{}], "type": "null"})").find("beside"), std::string::npos);
  EXPECT_NE(refusal(R"({"type": "array", "minItems": 3000})").find("0 to 2000"), std::string::npos);
  EXPECT_NE(refusal(R"({"type": "integer", "minimum": 3, "maximum": 2})").find("no integer"),
            std::string::npos);
  EXPECT_NE(refusal("false").find("nothing"), std::string::npos);
  EXPECT_NE(refusal("[1]").find("an object or true"), std::string::npos);
  EXPECT_NE(refusal(R"({"type": "float"})").find("no type"), std::string::npos);
}

// Of sizes that would exhaust the stack.
TEST(JsonSchema, RefusesWhatIsTooDeep) {
  Json chain = {{"$ref", "#/$defs/0"}};
  for (int i = 0; i < 20000; ++i) {
    chain["$defs"][std::to_string(i)] = {{"$ref", "#/$defs/" + std::to_string(i + 1)}};
  }
  EXPECT_NE(refusal(chain.dump().c_str()).find("in one another"), std::string::npos);
  const Json name = {{"properties", {{std::string(300000, 'a'), true}}},
                     {"additionalProperties", true}};
  EXPECT_NE(refusal(name.dump().c_str()).find("300000 bytes"), std::string::npos);
}

// Whatever a grammar of JSON allows, a JSON parser reads.
TEST(JsonSchema, AllTextsAreJson) {
  core::Random random(6);
  const auto value = json_grammar(false);
  const auto object = json_schema_grammar(Json::parse(R"({"properties": {"a": {"type": "number"},
      "b": {"type": "string", "pattern": "[\"\\\\\\x00-\\x20\\u007f]{3}"}, "c": {"items": {}}},
      "additionalProperties": true})"));
  int read = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string text = random_text(i % 2 == 0 ? value : object, random);
    if (!text.empty()) {
      ++read;
      EXPECT_TRUE(Json::accept(text)) << text;
    }
  }
  EXPECT_GT(read, 50);
}

}  // namespace
}  // namespace nibble::text
