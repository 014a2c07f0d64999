#include "engine/text_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "core/error.h"

// Searches over chances that are written down, without a model.
namespace nibble::engine {
namespace {

using Ids = std::vector<std::int32_t>;
using Chances = std::vector<double>;

constexpr std::size_t kVocabulary = 11;
constexpr std::int32_t kEnd = 0;

// Runs a search whose step number i has the chances `of(i)` behind every row.
WrittenText search(const WritingOptions& options, const std::function<Chances(int)>& of) {
  const auto found = make_text_search(options);
  for (int step = 1; !found->done(); ++step) {
    const Chances chances = of(step);
    std::vector<float> logits;
    for (std::size_t row = 0; row < found->rows().size(); ++row) {
      for (const double chance : chances) {
        logits.push_back(static_cast<float>(std::log(chance)));
      }
    }
    found->advance({logits, std::ssize(found->rows()), std::ssize(chances)});
  }
  return found->result();
}

// The end has `end`, token 1 `one`, and the others share the rest.
Chances chances(double end, double one) {
  Chances all(kVocabulary, (1 - end - one) / static_cast<double>(kVocabulary - 2));
  all[kEnd] = end;
  all[1] = one;
  return all;
}

WritingOptions two_beams(EarlyStopping early) {
  WritingOptions options;
  options.start = 9;
  options.ends = {kEnd};
  options.beams = 2;
  options.max_length = 12;
  options.early_stopping = early;
  return options;
}

// Two texts are finished behind the second step, and the best beam is worse than both. A long text
// would still be better than either: only the search that never stops early finds it.
TEST(BeamSearch, EndsAsItIsTold) {
  const auto of = [](int step) {
    return step == 1 ? chances(0.5, 0.3) : step == 2 ? chances(0.6, 0.04) : chances(1e-9, 0.999);
  };
  for (const EarlyStopping early : {EarlyStopping::kNo, EarlyStopping::kYes}) {
    const WrittenText text = search(two_beams(early), of);
    EXPECT_EQ(text.tokens, (Ids{9, kEnd}));
    EXPECT_NEAR(text.score, std::log(0.5), 1e-6);
  }
  const WrittenText text = search(two_beams(EarlyStopping::kNever), of);
  Ids longest(12, 1);
  longest.front() = 9;
  EXPECT_EQ(text.tokens, longest);
  const double sum = std::log(0.3) + std::log(0.04) + 9 * std::log(0.999);
  EXPECT_NEAR(text.score, sum / 11, 1e-5);
}

// Without a penalty of lengths the longer text can't become better, so that nothing is waited for.
TEST(BeamSearch, NeverWithoutAPenaltyStopsWhereNothingCanBecomeBetter) {
  WritingOptions options = two_beams(EarlyStopping::kNever);
  options.length_penalty = 0;
  int last = 0;
  const WrittenText text = search(options, [&](int step) {
    last = step;
    return chances(step == 1 ? 0.5 : 0.6, 0.3);
  });
  EXPECT_EQ(text.tokens, (Ids{9, kEnd}));
  EXPECT_EQ(last, 2);
}

TEST(BeamSearch, OfEqualTokensTheFirstCounts) {
  for (const std::int64_t beams : {1, 3}) {
    WritingOptions options = two_beams(EarlyStopping::kNo);
    options.beams = beams;
    options.max_length = 4;
    options.min_length = 4;
    EXPECT_EQ(search(options, [](int) { return Chances(kVocabulary, 1.0 / kVocabulary); }).tokens,
              (Ids{9, 1, 1, 1}))
        << beams;
  }
}

// What is drawn first, by token, of many searches with seeds of their own.
std::vector<int> drawn(DrawOptions draw, const Chances& of) {
  std::vector<int> counts(of.size());
  WritingOptions options = two_beams(EarlyStopping::kNo);
  options.beams = 1;
  options.max_length = 2;
  options.samples = true;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    draw.seed = seed;
    options.draw = draw;
    ++counts[static_cast<std::size_t>(search(options, [&](int) { return of; }).tokens.back())];
  }
  return counts;
}

// By hand: at temperature 0.5 chances are squared (16 : 4 : 1 : 1), so that the first two have
// 0.909 of them; at temperature 1 they have 0.75. Counts lie within five standard deviations.
TEST(Draws, TheTemperatureComesBeforeTopP) {
  const Chances of = {0.5, 0.25, 0.125, 0.125};
  const auto expect_shares = [&](const DrawOptions& draw, const Chances& shares) {
    const std::vector<int> counts = drawn(draw, of);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const double spread = std::sqrt(4000 * shares[i] * (1 - shares[i]));
      EXPECT_NEAR(counts[i], 4000 * shares[i], 5 * spread) << i;
    }
  };
  expect_shares({}, of);
  expect_shares({.temperature = 0.5f}, {16. / 22, 4. / 22, 1. / 22, 1. / 22});
  expect_shares({.temperature = 0.5f, .top_p = 0.9f}, {0.8, 0.2, 0, 0});
  expect_shares({.top_p = 0.9f}, {0.5, 0.25, 0.125, 0.125});
  expect_shares({.top_p = 0.7f}, {2. / 3, 1. / 3, 0, 0});
  expect_shares({.top_k = 2}, {2. / 3, 1. / 3, 0, 0});
  expect_shares({.top_k = 0, .min_p = 0.3f}, {2. / 3, 1. / 3, 0, 0});
  expect_shares({.temperature = 0.5f, .min_p = 0.3f}, {1, 0, 0, 0});
}

TEST(Draws, KeepToTheRulesAndToTheSeed) {
  WritingOptions options = two_beams(EarlyStopping::kNo);
  options.beams = 1;
  options.samples = true;
  options.min_length = 12;
  options.no_repeat_ngram = 1;
  options.max_length = 10;
  const auto of = [](int) { return Chances(kVocabulary, 1.0 / kVocabulary); };
  const Ids first = search(options, of).tokens;
  EXPECT_EQ(search(options, of).tokens, first);
  EXPECT_EQ(std::count(first.begin(), first.end(), kEnd), 0);
  Ids sorted = first;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end()) << "no token comes twice";
  options.draw.seed = 1;
  EXPECT_NE(search(options, of).tokens, first);
  options.max_length = 12;  // all others have come
  EXPECT_THROW((void)search(options, of), core::Error);
}

TEST(BeamSearch, RefusesNaN) {
  for (const std::int64_t beams : {1, 2}) {
    WritingOptions options = two_beams(EarlyStopping::kNo);
    options.beams = beams;
    const Chances nan(kVocabulary, std::numeric_limits<double>::quiet_NaN());
    EXPECT_THROW(search(options, [&](int) { return nan; }), core::Error);
  }
}

}  // namespace
}  // namespace nibble::engine
