#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "engine/log_probabilities.h"
#include "engine/penalties.h"

namespace nibble::engine {
namespace {

std::int32_t draw(Sampler& sampler, const std::vector<float>& logits) {
  std::vector<ops::RankedToken> ranked;
  rank(logits, sampler.wanted(), ranked);
  return sampler.sample(ranked);
}

TEST(Sampler, FollowsItsDistribution) {
  SamplingOptions options;
  options.temperature = 1.0f;
  options.top_k = 0;
  options.top_p = 1.0f;
  options.min_p = 0.0f;
  Sampler sampler(options);
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f), std::log(5.0f)};
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < 8000; ++i) {
    ++counts[draw(sampler, logits)];
  }
  EXPECT_NEAR(counts[0], 1000, 120);
  EXPECT_NEAR(counts[1], 2000, 160);
  EXPECT_NEAR(counts[2], 5000, 200);
}

TEST(Sampler, FiltersKeepTheMostProbable) {
  const std::vector<float> logits = {0.0f, 4.0f, 3.0f, 2.0f, -5.0f};
  const auto drawn = [&](SamplingOptions options) {
    Sampler sampler(options);
    std::map<std::int32_t, int> counts;
    for (int i = 0; i < 500; ++i) {
      ++counts[draw(sampler, logits)];
    }
    return counts;
  };
  EXPECT_EQ(drawn({2.0f, 2, 1.0f, 0.0f, 1}).size(), 2u);
  EXPECT_EQ(drawn({2.0f, 0, 0.5f, 0.0f, 1}).size(), 1u);
  EXPECT_EQ(drawn({2.0f, 0, 1.0f, 0.3f, 1}).size(), 2u);
  EXPECT_EQ(drawn({0.0f, 0, 1.0f, 0.0f, 1}), (std::map<std::int32_t, int>{{1, 500}}));
  std::vector<ops::RankedToken> ranked;
  const std::vector<float> damaged = {1.0f, std::nanf("")};
  EXPECT_THROW(rank(damaged, 1, ranked), core::Error);
}

// What is looked at first leaves nothing out.
TEST(Sampler, RanksAsASortDoes) {
  core::Random random(4);
  for (const std::int64_t size : {1, 5, 127, 128, 129, 1000, 20000}) {
    for (const float unit : {0.5f, 64.0f}) {  // many ties, few
      std::vector<float> logits(static_cast<std::size_t>(size));
      for (float& value : logits) {
        value = random.below(9) == 0 ? -std::numeric_limits<float>::infinity()
                                     : std::round(unit * random.normal());
      }
      std::vector<ops::RankedToken> all;
      for (std::size_t i = 0; i < logits.size(); ++i) {
        if (std::isfinite(logits[i])) {
          all.push_back({static_cast<std::int32_t>(i), logits[i]});
        }
      }
      std::stable_sort(all.begin(), all.end(),
                       [](const auto& a, const auto& b) { return a.logit > b.logit; });
      constexpr std::int64_t kCounts[] = {
          0, 1, 2, 40, 157, 1000, std::numeric_limits<std::int64_t>::max()};
      for (const std::int64_t count : kCounts) {
        std::vector<ops::RankedToken> ranked;
        rank(logits, count, ranked);
        const std::size_t kept =
            count == 0 ? all.size() : std::min(all.size(), static_cast<std::size_t>(count));
        ASSERT_EQ(ranked.size(), kept);
        for (std::size_t i = 0; i < kept; ++i) {
          ASSERT_EQ(ranked[i].id, all[i].id) << size << ' ' << count << ' ' << i;
          ASSERT_EQ(ranked[i].logit, all[i].logit);
        }
      }
      logits[static_cast<std::size_t>(random.below(size))] = std::nanf("");
      std::vector<ops::RankedToken> ranked;
      EXPECT_THROW(rank(logits, 1, ranked), core::Error);
    }
  }
}

// Sequences of one batch get as many tokens as the greediest of them asks for.
TEST(Sampler, DrawsTheSameFromMoreThanItWants) {
  core::Random random(4);
  std::vector<float> logits(300);
  for (float& value : logits) {
    value = std::round(4.0f * random.normal());  // ties too
  }
  std::vector<ops::RankedToken> all;
  rank(logits, 0, all);
  ASSERT_EQ(all.size(), logits.size());
  for (const SamplingOptions& options :
       {SamplingOptions{0.0f, 40, 1.0f, 0.0f, 5}, SamplingOptions{0.8f, 40, 0.95f, 0.05f, 6},
        SamplingOptions{1.5f, 7, 1.0f, 0.0f, 7}, SamplingOptions{3.0f, 0, 1.0f, 0.0f, 8}}) {
    Sampler of_row(options);
    Sampler of_tokens(options);
    for (int i = 0; i < 50; ++i) {
      ASSERT_EQ(draw(of_row, logits), of_tokens.sample(RankedTokens(all)));
    }
  }
}

TEST(Sampler, SaysHowItWillDraw) {
  Sampler sampler({.temperature = 0.9f, .top_k = 7, .top_p = 0.8f, .min_p = 0.02f, .seed = 4});
  Sampler same = sampler;
  for (int before = 0; before < 3; ++before) {
    const ops::TokenDraw draw = sampler.draw_after(before);
    EXPECT_EQ(draw.top_k, 7);
    EXPECT_EQ(draw.top_p, 0.8f);
    core::Random random(4);
    double uniform = random.uniform();
    for (int i = 0; i < before; ++i) {
      uniform = random.uniform();
    }
    EXPECT_EQ(draw.uniform, uniform);
  }
  const std::vector<ops::RankedToken> tokens = {{3, 1.0f}, {5, 0.9f}, {8, 0.8f}, {9, 0.8f}};
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(sampler.draw_after(0).uniform, same.draw_after(0).uniform);
    EXPECT_EQ(sampler.sample(tokens), same.sample(tokens));
  }
}

TEST(Sampler, NeverDrawsWhatIsForbidden) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {kNever, 1.0f, kNever, 0.5f};
  std::vector<ops::RankedToken> ranked;
  rank(logits, 0, ranked);
  EXPECT_EQ(ranked, (std::vector<ops::RankedToken>{{1, 1.0f}, {3, 0.5f}}));
  rank(std::vector<float>{kNever, kNever}, 1, ranked);
  EXPECT_TRUE(ranked.empty());
}

TEST(Sampler, OptionsOutsideTheirRangesAreRefused) {
  const auto refused = [](auto change) {
    SamplingOptions options;
    change(options);
    EXPECT_THROW(validate(options, 10), core::Error);
  };
  const float nan = std::nanf("");
  validate(SamplingOptions{}, 10);
  refused([](SamplingOptions& o) { o.temperature = -1; });
  refused([&](SamplingOptions& o) { o.temperature = nan; });
  refused([](SamplingOptions& o) { o.top_k = -5; });
  refused([](SamplingOptions& o) { o.top_p = 0; });
  refused([](SamplingOptions& o) { o.top_p = 2; });
  refused([](SamplingOptions& o) { o.min_p = 1; });
  refused([](SamplingOptions& o) { o.repetition_penalty = 0; });
  refused([](SamplingOptions& o) { o.presence_penalty = 1e30f; });
  refused([&](SamplingOptions& o) { o.frequency_penalty = nan; });
  refused([](SamplingOptions& o) { o.logit_bias = {{10, 1.0f}}; });
  refused([](SamplingOptions& o) { o.logit_bias = {{-1, 1.0f}}; });
  refused([&](SamplingOptions& o) { o.logit_bias = {{1, nan}}; });
}

// Every step by hand: bias, then repetition (prompt and text), then presence and frequency (text).
TEST(Penalties, AreThoseOfTheirDefinitions) {
  SamplingOptions options;
  options.repetition_penalty = 2.0f;
  options.presence_penalty = 0.5f;
  options.frequency_penalty = 0.25f;
  options.logit_bias = {{0, 3.0f}, {4, -1.0f}};
  const std::vector<std::int32_t> prompt = {0, 1, 1};
  Penalties penalties(options, prompt);
  EXPECT_TRUE(penalties.any());
  penalties.accept(2);
  penalties.accept(2);
  penalties.accept(1);
  std::vector<float> logits = {1.0f, -4.0f, 6.0f, 5.0f, 1.0f};
  penalties.apply(logits);
  EXPECT_EQ(logits, (std::vector<float>{(1.0f + 3.0f) / 2, -4.0f * 2 - 0.5f - 0.25f,
                                        6.0f / 2 - 0.5f - 2 * 0.25f, 5.0f, 0.0f}));
  EXPECT_FALSE(Penalties(SamplingOptions{}, prompt).any());
}

TEST(LogProbabilities, SumToOneAndAreInOrder) {
  const std::vector<float> logits = {2.0f, -1.0f, 700.0f, 699.0f, 3.0f};
  const TokenRecord record = record_of(logits, 3, 5);
  double sum = 0;
  for (const TokenChance& chance : record.most_probable) {
    sum += std::exp(static_cast<double>(chance.log_probability));
  }
  EXPECT_NEAR(sum, 1.0, 1e-6);
  EXPECT_EQ(record.chosen.token, 3);
  EXPECT_NEAR(record.chosen.log_probability, -std::log1p(std::exp(1.0)), 1e-6);
  EXPECT_EQ(record.most_probable[0].token, 2);
  EXPECT_EQ(record.most_probable[4].token, 1);
  EXPECT_EQ(record_of(logits, 0, 0).most_probable.size(), 0u);
  EXPECT_EQ(record.rank, 2);
  EXPECT_EQ(record_of(logits, 1, 0).rank, 5);
  EXPECT_EQ(record_of(std::vector<float>{1.0f, 2.0f, 2.0f, 2.0f}, 2, 0).rank, 2) << "equal ones";
}

}  // namespace
}  // namespace nibble::engine
