#include <ctime>

#include <gtest/gtest.h>

#include "core/error.h"
#include "text/unicode/properties.h"
#include "text/unicode/regex.h"
#include "text/unicode/regex_syntax.h"
#include "text/unicode/utf8.h"

namespace nibble::text {
namespace {

const std::string kFffd = "\xef\xbf\xbd";

// Expected values: Python's bytes.decode("utf-8", errors="replace"), which follows the same rule.
TEST(Utf8, InvalidBytesBecomeOneReplacementPerMaximalPart) {
  EXPECT_EQ(to_valid_utf8("a\xff"), "a" + kFffd);
  EXPECT_EQ(to_valid_utf8("\xe2\x82"), kFffd);
  EXPECT_EQ(to_valid_utf8("\xe2\x82z"), kFffd + "z");
  EXPECT_EQ(to_valid_utf8("\xf0\x9f\x99\xf0\x9f\x99\x82"), kFffd + "\xf0\x9f\x99\x82");
  EXPECT_EQ(to_valid_utf8("\xed\xa0\x80"), kFffd + kFffd + kFffd);              // a surrogate
  EXPECT_EQ(to_valid_utf8("\xc0\xaf"), kFffd + kFffd);                          // overlong
  EXPECT_EQ(to_valid_utf8("\xf4\x90\x80\x80"), kFffd + kFffd + kFffd + kFffd);  // above U+10FFFF
  EXPECT_EQ(to_valid_utf8("\xe0\x80\x80"), kFffd + kFffd + kFffd);
}

TEST(Utf8, ValidityAndRepairAgreeOnAllPairsOfBytes) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string text = {static_cast<char>(first), static_cast<char>(second), 'x'};
      const std::string repaired = to_valid_utf8(text);
      EXPECT_TRUE(is_valid_utf8(repaired));
      EXPECT_EQ(is_valid_utf8(text), repaired == text);
    }
  }
}

TEST(Utf8, ARefusalNamesThePlace) {
  EXPECT_EQ(valid_utf8_bytes("ab\xc3\xa9"), 4u);
  EXPECT_EQ(valid_utf8_bytes("ab\xc3\xa9 caf\xe9 x\xff"), 8u);
  EXPECT_EQ(valid_utf8_bytes("ab\xe2\x82"), 2u) << "cut off";
  require_utf8("ab\n\xc3\xa9", "t.txt");
  try {
    require_utf8("ab\nd\xc3\xa9j\xe0 vu", "'t.txt'");
    ADD_FAILURE();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
    EXPECT_STREQ(error.what(),
                 "'t.txt' is not UTF-8: line 2 has the byte 0xe0 at offset 7; convert it, for "
                 "example with iconv");
  }
}

TEST(Utf8, RepairDoesNotDependOnHowBytesAreCut) {
  const std::string bytes = "x\xe2\x82\xac\xe2\x82\xff\xf0\x9f\x99\x82\xf0\x9f\x99 \xc3\xa9\xc3";
  for (std::size_t first = 0; first <= bytes.size(); ++first) {
    for (std::size_t second = first; second <= bytes.size(); ++second) {
      Utf8Repair repair;
      std::string out;
      repair.push(std::string_view(bytes).substr(0, first), out);
      EXPECT_TRUE(is_valid_utf8(out));
      repair.push(std::string_view(bytes).substr(first, second - first), out);
      repair.push(std::string_view(bytes).substr(second), out);
      repair.finish(out);
      EXPECT_EQ(out, to_valid_utf8(bytes));
    }
  }
}

TEST(Utf8, CodePointsRoundTrip) {
  for (const char32_t c :
       {0x0U, 0x7fU, 0x80U, 0x7ffU, 0x800U, 0xd7ffU, 0xe000U, 0xffffU, 0x10000U, 0x10ffffU}) {
    std::string text;
    append_utf8(text, c);
    EXPECT_TRUE(is_valid_utf8(text));
    EXPECT_EQ(decode_utf8(text, 0).value, c);
    EXPECT_EQ(decode_utf8("ab" + text, 2).bytes, text.size());
    EXPECT_EQ(decode_utf8_before("ab" + text, 2 + text.size()).value, c);
  }
}

std::vector<std::string> matches(std::string_view pattern, const std::string& text) {
  const Regex regex(pattern, "test");
  PatternBudget budget(text.size());
  RegexSearch search(regex, budget);
  search.start(text);
  std::vector<std::string> found;
  while (const auto match = search.next()) {
    found.emplace_back(slice(text, *match));
  }
  return found;
}

using Strings = std::vector<std::string>;

TEST(Regex, PropertiesAndCase) {
  EXPECT_EQ(matches(R"(\p{L}+)", "ab 1é漢"), (Strings{"ab", "é漢"}));
  EXPECT_EQ(matches(R"((?i:'s))", "it's IT'S"), (Strings{"'s", "'S"}));
  EXPECT_EQ(matches(R"(\p{N}{1,3})", "12345"), (Strings{"123", "45"}));
}

TEST(Regex, EmptyMatchesDoNotRepeat) {
  EXPECT_EQ(matches("x*", "axb"), (Strings{"", "x", ""}));
}

TEST(Regex, WhatIsNotSupportedIsRefused) {
  for (const std::string pattern :
       {"[a[bc]]",   "[a&&b]",         R"(\G)", R"(\K)",     "(?~a)",   "(*FAIL)",
        "(?x: a)",   "a(?i)b|c",       "(",     ")",         "[",       "[]a]",
        "a{2}{3}+)", R"(\p{Klingon})", R"(\)",  R"(\pL)",    R"(\u12)", "(?<n>a)\\k'n'",
        "(?R)",      "a{99999}",       R"(\y)", "[[:foo:]]", "(?C1)"}) {
    try {
      const Regex regex(pattern, "file");
      ADD_FAILURE() << "accepted " << pattern;
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel) << pattern;
      EXPECT_TRUE(std::string_view(error.what()).starts_with("file: ")) << error.what();
    }
  }
  EXPECT_THROW(Regex(std::string(100'000, 'a'), "file"), core::Error);
}

double seconds_to_give_up(std::string_view pattern, const std::string& text) {
  const std::clock_t start = std::clock();  // CPU time: the machine may be busy
  try {
    matches(pattern, text);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kFailed);
  }
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

TEST(Regex, CatastrophicBacktrackingEnds) {
  EXPECT_LT(seconds_to_give_up("(a+)+$", std::string(40, 'a') + "b"), 10);
  EXPECT_LT(seconds_to_give_up("(a|aa)+$", std::string(60, 'a') + "b"), 10);
  EXPECT_LT(seconds_to_give_up(R"((\p{L}|\p{L}\p{M}*)*\d)", std::string(200, 'a')), 10);
}

// Each match on its own is quick; all of them together, of all patterns, are not.
TEST(Regex, AllPatternsShareTheBudgetOfAText) {
  const std::string text(100'000, 'a');
  const Regex first("a", "test");
  const Regex second("b|a", "test");
  PatternBudget budget(text.size());
  const auto count = [&](const Regex& regex) {
    RegexSearch search(regex, budget);
    search.start(text);
    std::size_t matches = 0;
    while (search.next()) {
      ++matches;
    }
    return matches;
  };
  EXPECT_EQ(count(first), text.size());
  EXPECT_GT(budget.spent(), 0);
  budget.spend(budget.limit());
  EXPECT_THROW(count(second), core::Error);
}

// Many places where a match may start are tried in one call, some after the others.
TEST(Regex, MatchesBehindLongStretchesWithoutAnyAreFound) {
  for (const std::size_t before : {0, 1, 31, 32, 33, 63, 64, 65, 1000, 100'000}) {
    std::string text;
    for (std::size_t i = 0; i < before; ++i) {
      text += "é";
    }
    const std::string end = " \t";
    PatternBudget budget;
    const Regex regex(R"((?<=é|^)\s+$)", "test");
    RegexSearch search(regex, budget);
    text += end;
    search.start(text);
    const auto found = search.next();
    ASSERT_TRUE(found) << before;
    EXPECT_EQ(found->begin, text.size() - end.size());
    EXPECT_EQ(found->end, text.size());
    EXPECT_FALSE(search.next());
  }
}

// A look-ahead to the end of the text from each of its places: minutes in one call of the matcher.
TEST(Regex, LookingFarAheadFromEachPlaceEnds) {
  const std::string text = std::string(400'000, ' ') + "a";
  EXPECT_LT(seconds_to_give_up(R"((?=\s+\d)\s)", text), 10);
  EXPECT_LT(seconds_to_give_up(R"((?:\s)+\d)", text), 10);
}

TEST(Regex, DeepGroupRepetitionsDoNotOverflow) {
  EXPECT_LT(seconds_to_give_up("((?=a)a)*b|(a)", std::string(200'000, 'a')), 30);
}

TEST(Regex, LongRunsOfSpacesAreQuick) {
  const std::string text = std::string(1 << 20, ' ') + "a";
  const auto found = matches(R"(\s*[\r\n]+|\s+(?!\S)|\s+|\p{L}+)", text);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].size(), text.size() - 2);
}

TEST(Properties, Classes) {
  EXPECT_TRUE(is_white_space(U'\u3000'));
  EXPECT_FALSE(is_white_space(U'\u200b'));
  EXPECT_TRUE(is_numeric(U'½'));
  EXPECT_TRUE(is_punctuation(U'$'));
  EXPECT_FALSE(is_punctuation(U'€'));
  EXPECT_TRUE(is_word_character(U'_'));
  EXPECT_FALSE(is_word_character(U'½'));
  EXPECT_TRUE(is_bert_cjk(U'漢'));
  EXPECT_FALSE(is_bert_cjk(U'カ'));
}

}  // namespace
}  // namespace nibble::text
