#include "text/grammar/grammar.h"

#include <regex>
#include <set>

#include <gtest/gtest.h>

#include "characters/utf8.h"
#include "core/error.h"
#include "core/random.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/matcher.h"
#include "text/grammar/token_mask.h"
#include "text/grammar/utf8_ranges.h"

namespace nibble::text {
namespace {

bool matches(GrammarMatcher& matcher, std::string_view text) {
  GrammarMatcher::State state = matcher.start();
  for (const char c : text) {
    state = matcher.next(state, static_cast<std::uint8_t>(c));
  }
  return matcher.complete(state);
}

bool matches(std::string_view grammar, std::string_view text) {
  GrammarMatcher matcher(parse_gbnf(grammar));
  return matches(matcher, text);
}

std::string refusal(std::string_view grammar) {
  try {
    parse_gbnf(grammar);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

// Every code point is in exactly one sequence of its range, and no other bytes are.
TEST(Utf8Ranges, AreTheCodePointsOfARange) {
  const std::vector<CodePointRange> ranges = {{0, 0x7f},       {0x7f, 0x80},     {0x3b1, 0x7ff},
                                              {0x700, 0xfff},  {0xd000, 0xe123}, {0xfff0, 0x1000f},
                                              {0x41, 0x10fffe}};
  for (const CodePointRange& range : ranges) {
    const auto sequences = utf8_sequences(range);
    std::size_t covered = 0;
    for (const Utf8Sequence& sequence : sequences) {
      std::size_t count = 1;
      for (const ByteRange& byte : sequence) {
        count *= byte.high - byte.low + 1u;
      }
      covered += count;
    }
    std::size_t wanted = 0;
    for (std::uint32_t point = range.low; point <= range.high; ++point) {
      if (point >= 0xd800 && point <= 0xdfff) {
        continue;
      }
      ++wanted;
      if (point % 97 != 0 && point != range.low && point != range.high) {
        continue;
      }
      std::string bytes;
      characters::append_utf8(bytes, point);
      const auto holds = [&](const Utf8Sequence& sequence) {
        if (sequence.size() != bytes.size()) {
          return false;
        }
        for (std::size_t i = 0; i < bytes.size(); ++i) {
          const auto byte = static_cast<std::uint8_t>(bytes[i]);
          if (byte < sequence[i].low || byte > sequence[i].high) {
            return false;
          }
        }
        return true;
      };
      EXPECT_EQ(1, std::count_if(sequences.begin(), sequences.end(), holds)) << point;
    }
    EXPECT_EQ(covered, wanted) << range.low;
  }
}

// Regular grammars against the standard library's regular expressions, over random texts.
TEST(Grammar, RegularOnesAgreeWithRegularExpressions) {
  const std::pair<const char*, const char*> cases[] = {
      {R"(root ::= "a"* "b")", "a*b"},
      {R"g(root ::= ("a" | "bc")+ "c"?)g", "(a|bc)+c?"},
      {R"g(root ::= [ab]{2,4} ("c"{0,2} "a")*)g", "[ab]{2,4}(c{0,2}a)*"},
      {R"g(root ::= ("a"? "b"?)* "c")g", "(a?b?)*c"},
      {R"(root ::= x{2,} "c"
x ::= "a" | [^ac])",
       "(a|[^ac]){2,}c"},
      {R"g(root ::= ("a"{3})? "b"{1})g", "(a{3})?b"}};
  core::Random random(3);
  for (const auto& [grammar, expression] : cases) {
    GrammarMatcher matcher(parse_gbnf(grammar));
    const std::regex regex(expression);
    int found = 0;
    for (int i = 0; i < 4000; ++i) {
      std::string text;
      for (std::uint64_t n = random.below(8); n > 0; --n) {
        text += "abc"[random.below(3)];
      }
      const bool expected = std::regex_match(text, regex);
      found += expected ? 1 : 0;
      ASSERT_EQ(matches(matcher, text), expected) << grammar << " with " << text;
    }
    EXPECT_GT(found, 10) << grammar;
  }
}

TEST(Grammar, NestsAndCountsBrackets) {
  const char* grammar = R"g(root ::= "(" root ")" root | "")g";
  GrammarMatcher matcher(parse_gbnf(grammar));
  core::Random random(4);
  for (int i = 0; i < 4000; ++i) {
    std::string text;
    int open = 0;
    bool sound = true;
    for (std::uint64_t n = 2 * random.below(6); n > 0; --n) {
      text += random.below(2) == 0 ? '(' : ')';
      open += text.back() == '(' ? 1 : -1;
      sound = sound && open >= 0;
    }
    ASSERT_EQ(matches(matcher, text), sound && open == 0) << text;
  }
  EXPECT_LT(matcher.states(), 50u);  // what was met before is not made again
}

TEST(Grammar, ReadsWhatIsWritten) {
  EXPECT_TRUE(matches("root ::= \"\\\"\\n\\x41\\u00e9\"", "\"\nA\xc3\xa9"));
  EXPECT_TRUE(matches("# first\nroot ::= # here\n  a |\n  \"x\" # there\na ::= [\\]\\-a]", "]"));
  EXPECT_TRUE(matches("root ::= [^\\n]+", "\xf0\x9f\x98\x80 ok"));
  EXPECT_FALSE(matches("root ::= .", "\n"));
  EXPECT_FALSE(matches("root ::= .", "\xc3"));
  EXPECT_FALSE(matches("root ::= .", "\xed\xa0\x80"));  // a surrogate
  EXPECT_TRUE(matches("root ::= (\"a\"\n \"b\")\n", "ab"));
  EXPECT_TRUE(matches("root ::= a b\na ::= \"1\"\nb ::= \"2\"", "12"));
}

TEST(Grammar, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(refusal("root ::= \"a"),
            "grammar, line 1, column 12: expected \" at the end of a text");
  EXPECT_EQ(refusal("root ::= (\"a\" | \"b\"\n\nx ::= \"c\""),
            "grammar, line 3, column 1: expected )");
  EXPECT_NE(refusal("root ::= a\n").find("'a' (line 1)"), std::string::npos);
  EXPECT_NE(refusal("a ::= \"x\"").find("no rule 'root'"), std::string::npos);
  EXPECT_NE(refusal("root ::= \"a\"\nroot ::= \"b\"").find("defined twice"), std::string::npos);
  EXPECT_NE(refusal("root ::= [b-a]").find("backwards"), std::string::npos);
  EXPECT_NE(refusal("root ::= \"\\q\"").find("not known"), std::string::npos);
  EXPECT_NE(refusal("root ::= \"a\"{2001}").find("too many"), std::string::npos);
  EXPECT_NE(refusal("root ::= \"\xff\"").find("not UTF-8"), std::string::npos);
  EXPECT_NE(refusal("root ::= " + std::string(60000, '(')).find("too deep"), std::string::npos);
}

TEST(Grammar, LeftRecursionIsRefusedButEmptyRepetitionIsNot) {
  EXPECT_NE(refusal("root ::= root \"a\" | \"b\"").find("begin with itself"), std::string::npos);
  EXPECT_NE(refusal("root ::= x root \"a\" | \"b\"\nx ::= \"y\"?").find("begin with itself"),
            std::string::npos);
  EXPECT_NE(refusal("root ::= a\na ::= b \"x\"\nb ::= a | \"y\"").find("begin with itself"),
            std::string::npos);
  EXPECT_TRUE(matches("root ::= ((\"a\"*)*)* \"b\"", "aab"));
  EXPECT_TRUE(matches("root ::= a\na ::= a | \"y\"", "y"));
}

TEST(Grammar, RepetitionsInRepetitionsStayBounded) {
  const std::string grammar = "root ::= ((((\"a\"{0,90}){0,90}){0,90}){0,90}){0,90} \"b\"";
  try {
    GrammarMatcher matcher(parse_gbnf(grammar));
    FAIL() << "was taken";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
  }
}

// The mask of every state against trying each token alone.
TEST(TokenMask, IsWhatEachTokenAloneAllows) {
  core::Random random(8);
  std::vector<std::string> pieces = {""};
  std::set<std::string> seen;
  while (pieces.size() < 300) {
    std::string piece;
    for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
      piece += "{}[]\",:01a\xc3\xa9"[random.below(12)];
    }
    if (seen.insert(piece).second) {
      pieces.push_back(piece);
    }
  }
  pieces.push_back("0");  // the same bytes may stand twice
  const auto tree = std::make_shared<const TokenTree>(pieces);
  const auto grammar = parse_gbnf(R"g(root ::= value
value ::= "{" (pair ("," pair)*)? "}" | "[" (value ("," value)*)? "]" | [01]+ | text
pair ::= text ":" value
text ::= "\"" [a\u00e9]* "\"")g");
  for (int run = 0; run < 20; ++run) {
    GrammarConstraint constraint(grammar, tree);
    GrammarMatcher alone(grammar);
    GrammarMatcher::State state = alone.start();
    for (int step = 0; step < 12; ++step) {
      const TokenMask mask = constraint.mask();
      std::vector<std::int32_t> allowed;
      for (std::size_t id = 0; id < pieces.size(); ++id) {
        GrammarMatcher::State end = state;
        for (const char c : pieces[id]) {
          end = alone.next(end, static_cast<std::uint8_t>(c));
        }
        const bool expected = !pieces[id].empty() && end != GrammarMatcher::kDead;
        ASSERT_EQ(allows(mask, static_cast<std::int32_t>(id)), expected) << pieces[id];
        if (expected) {
          allowed.push_back(static_cast<std::int32_t>(id));
        }
      }
      EXPECT_EQ(constraint.complete(), alone.complete(state));
      if (allowed.empty()) {
        break;
      }
      const std::int32_t id = allowed[random.below(allowed.size())];
      constraint.accept(id);
      for (const char c : pieces[static_cast<std::size_t>(id)]) {
        state = alone.next(state, static_cast<std::uint8_t>(c));
      }
    }
  }
  GrammarConstraint constraint(grammar, tree);
  const auto comma = std::find(pieces.begin(), pieces.end(), "0") - pieces.begin();
  constraint.accept(static_cast<std::int32_t>(comma));
  const auto brace = std::find_if(pieces.begin(), pieces.end(),
                                  [](const std::string& piece) { return piece.starts_with('{'); });
  EXPECT_THROW(constraint.accept(static_cast<std::int32_t>(brace - pieces.begin())), core::Error);
}

}  // namespace
}  // namespace nibble::text
