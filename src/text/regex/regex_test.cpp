#include "text/regex/regex.h"

#include <ctime>

#include <gtest/gtest.h>

#include "core/error.h"
#include "text/regex/regex_syntax.h"

namespace nibble::text {
namespace {

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

}  // namespace
}  // namespace nibble::text
