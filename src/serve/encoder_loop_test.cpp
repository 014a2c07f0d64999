#include "serve/encoder_loop.h"

#include <algorithm>
#include <future>
#include <latch>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "core/error.h"

namespace nibble::serve {
namespace {

constexpr std::int32_t kBad = 99;  // a token that the encoder can't read

// Embeds a text as its first token, and notes the texts of each call. The first call waits.
class WaitingEncoder final : public engine::Encoder {
 public:
  engine::EncoderRows embed(std::span<const engine::EncoderText> texts) override {
    return compute(texts, 1.0f);
  }
  engine::EncoderRows classify(std::span<const engine::EncoderText> texts) override {
    return compute(texts, -1.0f);
  }
  engine::EncoderRows hidden_states(std::span<const engine::EncoderText> /*texts*/) override {
    core::fail(core::ErrorKind::kUsage, "not asked for here");
  }
  engine::EncoderRows masked_lm(std::span<const engine::EncoderText> /*texts*/) override {
    core::fail(core::ErrorKind::kUsage, "not asked for here");
  }
  std::int64_t max_tokens() const override { return 100; }
  core::ThreadPool& pool() override { return pool_; }
  engine::DeviceLimits measure_limits() override { return {}; }

  std::latch began{1};
  std::latch go{1};
  std::vector<std::vector<std::int32_t>> calls;  // first tokens

 private:
  engine::EncoderRows compute(std::span<const engine::EncoderText> texts, float sign) {
    if (calls.empty()) {
      began.count_down();
      go.wait();
    }
    calls.emplace_back();
    engine::EncoderRows rows{{}, std::ssize(texts), 1};
    for (const engine::EncoderText& text : texts) {
      calls.back().push_back(text.tokens.front());
      rows.values.push_back(sign * static_cast<float>(text.tokens.front()));
    }
    const bool bad = std::count(calls.back().begin(), calls.back().end(), kBad) > 0;
    core::require(!bad, core::ErrorKind::kFailed, "a token can't be read");
    return rows;
  }

  core::ThreadPool pool_{1};
};

class EncoderLoopTest : public ::testing::Test {
 protected:
  using JobPointer = EncoderLoop::JobPointer;
  using Inputs = std::vector<std::pair<std::int32_t, std::size_t>>;  // first token, tokens

  static JobPointer job(const std::string& client, const Inputs& inputs,
                        EncoderJob::Output output = EncoderJob::Output::kEmbeddings) {
    auto made = std::make_shared<EncoderJob>();
    made->client = client;
    made->output = output;
    made->token_types = false;
    for (const auto& [first, tokens] : inputs) {
      text::ModelInput& input = made->inputs.emplace_back();
      input.ids.assign(tokens, 0);
      input.ids.front() = first;
    }
    return made;
  }

  // While the first step runs, others are posted; then all ends.
  void run(const std::vector<JobPointer>& jobs, std::size_t answered) {
    std::promise<void> all;
    std::size_t left = answered + 1;
    const auto first = job("first", {{1, 1}});
    EncoderLoop loop(encoder_, 10, [&](const JobPointer& done, const std::exception_ptr& error) {
      order_.push_back(done);
      failed_[done.get()] = error != nullptr;
      if (--left == 0) {
        all.set_value();
      }
    });
    ASSERT_TRUE(loop.post(first));
    encoder_.began.wait();
    EXPECT_EQ(loop.running(), 1);
    for (const JobPointer& each : jobs) {
      ASSERT_TRUE(loop.post(each));
    }
    for (const JobPointer& each : cancelled_) {
      each->ended = true;
    }
    EXPECT_GT(loop.step_time().count(), 0);
    encoder_.go.count_down();
    ASSERT_EQ(all.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  }

  using Calls = std::vector<std::vector<std::int32_t>>;

  WaitingEncoder encoder_;
  std::vector<JobPointer> cancelled_;
  std::vector<JobPointer> order_;
  std::map<const EncoderJob*, bool> failed_;
};

TEST_F(EncoderLoopTest, JoinsWhatCameWhileAStepRan) {
  const auto a = job("a", {{10, 2}, {11, 3}});
  const auto b = job("b", {{20, 4}});
  const auto c = job("c", {{30, 1}});
  run({a, b, c}, 3);
  EXPECT_EQ(encoder_.calls, (Calls{{1}, {10, 11, 20, 30}}));
  EXPECT_EQ(a->rows, (EncoderJob::Rows{{10}, {11}}));
  EXPECT_EQ(b->rows, (EncoderJob::Rows{{20}}));
  EXPECT_EQ(c->rows, (EncoderJob::Rows{{30}}));
}

TEST_F(EncoderLoopTest, LargeJobsLeaveRoomForOthers) {
  const auto large = job("a", {{10, 4}, {11, 4}, {12, 4}, {13, 40}, {14, 4}});
  const auto small = job("b", {{20, 4}});
  run({large, small}, 2);
  EXPECT_EQ(encoder_.calls, (Calls{{1}, {10, 11}, {20, 12}, {13}, {14}}))
      << "a step has ten tokens, or one input of more";
  EXPECT_EQ(large->rows, (EncoderJob::Rows{{10}, {11}, {12}, {13}, {14}}));
  EXPECT_EQ(order_[1], small);
}

// Of one client, in order, though a later one would fit.
TEST_F(EncoderLoopTest, WhatDoesNotFitBeginsTheNextStep) {
  const auto a = job("a", {{10, 6}});
  const auto b = job("b", {{20, 6}});
  const auto c = job("c", {{30, 1}});
  run({a, b, c}, 3);
  EXPECT_EQ(encoder_.calls, (Calls{{1}, {10}, {20, 30}}));
}

TEST_F(EncoderLoopTest, NobodyWaitsForWhatEnded) {
  const auto a = job("a", {{10, 1}});
  const auto gone = job("b", {{20, 1}});
  cancelled_ = {gone};
  run({a, gone}, 1);
  EXPECT_EQ(encoder_.calls, (Calls{{1}, {10}}));
  EXPECT_EQ(gone->rows.size(), 0u);
}

TEST_F(EncoderLoopTest, AFailureIsThatOfItsJob) {
  const auto a = job("a", {{10, 1}});
  const auto bad = job("b", {{kBad, 1}});
  const auto c = job("c", {{30, 1}});
  run({a, bad, c}, 3);
  EXPECT_FALSE(failed_.at(a.get()));
  EXPECT_TRUE(failed_.at(bad.get()));
  EXPECT_FALSE(failed_.at(c.get()));
  EXPECT_EQ(c->rows, (EncoderJob::Rows{{30}}));
}

TEST_F(EncoderLoopTest, EachJobGetsWhatItWants) {
  const auto a = job("a", {{10, 1}});
  const auto b = job("b", {{20, 1}}, EncoderJob::Output::kLogits);
  const auto c = job("c", {{30, 1}});
  run({a, b, c}, 3);
  EXPECT_EQ(encoder_.calls, (Calls{{1}, {10, 30}, {20}}));
  EXPECT_EQ(b->rows, (EncoderJob::Rows{{-20}}));
}

TEST_F(EncoderLoopTest, AClientMayNotFillTheQueue) {
  std::vector<JobPointer> jobs;
  EncoderLoop loop(encoder_, 10, [](const JobPointer&, const std::exception_ptr&) {});
  ASSERT_TRUE(loop.post(job("a", {{1, 1}})));
  encoder_.began.wait();
  for (std::size_t i = 0; i < EncoderLoop::kMaxOfClient; ++i) {
    ASSERT_TRUE(loop.post(job("a", {{2, 1}})));
  }
  EXPECT_FALSE(loop.post(job("a", {{2, 1}})));
  EXPECT_TRUE(loop.post(job("b", {{2, 1}})));
  encoder_.go.count_down();
}

}  // namespace
}  // namespace nibble::serve
