#include <stdexcept>
#include <utility>

#include <gtest/gtest.h>

#include "engine/ngram_drafts.h"
#include "engine/schedule_for_tests.h"

// An engine that begins a step before the results of the last one are taken.
namespace nibble::engine {
namespace {

using namespace testing;

TEST(StepsAhead, ChangeNothing) {
  for (std::uint64_t seed = 20; seed < 26; ++seed) {
    SCOPED_TRACE(seed);
    random_load(seed, {.pages = seed % 2 == 0 ? 500 : 12,
                       .prefill_rows = 48,
                       .steps_ahead = true,
                       .plain_requests = true,
                       .drafts = nullptr});
  }
}

TEST(StepsAhead, ChangeNothingWhereSomeRequestsWantMore) {
  for (std::uint64_t seed = 26; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    random_load(seed, {.pages = 14, .steps_ahead = true, .drafts = nullptr});
  }
}

TEST(StepsAhead, ChangeNothingWherePromptsAreAloneOrUnlike) {
  for (std::uint64_t seed = 30; seed < 34; ++seed) {
    SCOPED_TRACE(seed);
    random_load(seed, {.pages = 13,
                       .prefill_rows = 23,
                       .deterministic = seed % 2 == 0,
                       .independent = seed % 2 != 0,
                       .prompts_alike = false,
                       .steps_ahead = true,
                       .plain_requests = true,
                       .drafts = nullptr});
  }
}

TEST(StepsAhead, NotBesideDrafts) {
  const Tested tested =
      make_engine({.steps_ahead = true, .drafts = std::make_unique<NgramDrafts>(5)});
  tested.engine->submit(plain(20, 10));
  tested.engine->run_all();
  EXPECT_EQ(tested.runner->most_under_way, 0u);
}

// As many steps as tokens, and one token of every text that ends where nobody could know.
TEST(StepsAhead, ComputeNoTokenBehindTheLastThatWasAskedFor) {
  const Tested tested = make_engine({.steps_ahead = true, .drafts = nullptr});
  std::size_t steps = 0;
  tested.runner->on_step = [&](std::span<const Slice>) { ++steps; };
  Completion completion;
  Request request = plain(20, 9);
  request.on_finish = [&](const Completion& done) { completion = done; };
  tested.engine->submit(request);
  tested.engine->run_all();
  EXPECT_EQ(completion.tokens, run_alone(plain(20, 9)).tokens);
  EXPECT_EQ(steps, 9u);
  EXPECT_EQ(tested.runner->most_under_way, 2u);

  steps = 0;
  request.stop_tokens = {completion.tokens.at(5)};
  tested.engine->submit(request);
  tested.engine->run_all();
  EXPECT_EQ(completion.reason, FinishReason::kStop);
  const auto& known = run_alone(plain(20, 9)).tokens;
  const auto first = std::find(known.begin(), known.end(), known.at(5)) - known.begin();
  EXPECT_EQ(std::ssize(completion.tokens), first);
  EXPECT_EQ(steps, static_cast<std::size_t>(first + 2));
  EXPECT_EQ(tested.engine->state().pages_in_use, 0);
}

TEST(StepsAhead, NothingIsUnderWayWhenAllIsCancelled) {
  const Tested tested = make_engine({.steps_ahead = true, .drafts = nullptr});
  std::vector<RequestId> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(tested.engine->submit(plain(20 + i, 60)));
  }
  tested.engine->step();
  tested.engine->step();
  EXPECT_EQ(tested.runner->under_way(), 1u);
  for (const RequestId id : ids) {
    tested.engine->cancel(id);
  }
  EXPECT_EQ(tested.runner->under_way(), 0u);
  EXPECT_EQ(tested.engine->state().pages_in_use, 0);
  EXPECT_EQ(tested.engine->state().running, 0);
}

TEST(StepsAhead, AnEngineThatGoesLeavesNothingUnderWay) {
  auto runner = std::make_shared<PageReadingRunner>(kVocabulary);
  runner->steps_ahead = true;
  {
    Engine engine(small_model(), std::make_unique<ForwardingRunner>(runner), {});
    int pieces = 0;
    Request request = plain(20, 60);
    request.on_piece = [&](const Piece&) { ++pieces; };
    engine.submit(request);
    engine.step();
    EXPECT_EQ(runner->under_way(), 1u);
    request.on_piece = nullptr;
  }
  EXPECT_EQ(runner->under_way(), 0u);
}

TEST(StepsAhead, AStepThatCannotBeBegunIsComputedInParts) {
  decodes_beside_a_prompt_without_memory(make_engine({.steps_ahead = true, .drafts = nullptr}));
}

TEST(StepsAhead, AStepThatFailsUnderWayFailsItsRequestsAndNoOthers) {
  const Tested tested = make_engine({.max_batch = 2, .steps_ahead = true, .drafts = nullptr});
  std::vector<Completion> completions;
  submit_all(*tested.engine, {plain(10, 5), plain(11, 5), plain(12, 5), plain(13, 5)}, completions);
  int finished = 0;
  tested.runner->on_finish = [&] {
    if (++finished == 2) {
      core::fail(core::ErrorKind::kFailed, "the device is gone");
    }
  };
  tested.engine->run_all();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(completions[i].reason, i < 2 ? FinishReason::kFailed : FinishReason::kLength) << i;
  }
  EXPECT_EQ(completions[3].tokens, run_alone(plain(13, 5)).tokens);
  EXPECT_EQ(tested.runner->under_way(), 0u);
  EXPECT_EQ(tested.engine->state().pages_in_use, 0);
}

// Its first page is whole when the second step has computed the first token.
TEST(StepsAhead, PagesOfAStepThatFailsServeNobody) {
  const Tested tested = make_engine({.steps_ahead = true, .drafts = nullptr});
  Completion failed;
  Request request = plain(kPageTokens - 1, 5);
  request.on_finish = [&](const Completion& done) { failed = done; };
  tested.engine->submit(request);
  int finished = 0;
  tested.runner->on_finish = [&] {
    if (++finished == 2) {
      core::fail(core::ErrorKind::kFailed, "the device is gone");
    }
  };
  tested.engine->run_all();
  ASSERT_EQ(failed.reason, FinishReason::kFailed);
  ASSERT_EQ(failed.tokens.size(), 1u);
  Request next = plain(kPageTokens - 1, 5);
  next.prompt.push_back(failed.tokens.front());
  next.prompt.push_back(1);
  tested.engine->submit(next);
  tested.engine->run_all();
  EXPECT_EQ(tested.engine->state().prefix_hits, 0);
}

TEST(StepsAhead, NanFailsItsOwnRequest) {
  const Tested tested = make_engine({.steps_ahead = true, .drafts = nullptr});
  std::vector<Completion> completions;
  submit_all(*tested.engine, {plain(10, 5), plain(11, 5)}, completions);
  tested.runner->nan_after = 11;
  tested.engine->run_all();
  EXPECT_EQ(completions[0].tokens, run_alone(plain(10, 5)).tokens);
  EXPECT_EQ(completions[1].reason, FinishReason::kFailed);
}

TEST(StepsAhead, EmbeddingsComeBetween) {
  const Tested tested = make_engine({.steps_ahead = true, .drafts = nullptr});
  Completion completion;
  Request request = plain(20, 9);
  request.on_finish = [&](const Completion& done) { completion = done; };
  tested.engine->submit(request);
  tested.engine->step();
  EXPECT_EQ(tested.runner->under_way(), 1u);
  const std::vector<std::int32_t> text(40, 3);
  EXPECT_FLOAT_EQ(tested.engine->embed(text).at(0), 0.5f);
  tested.engine->run_all();
  EXPECT_EQ(completion.tokens, run_alone(plain(20, 9)).tokens);
}

}  // namespace
}  // namespace nibble::engine
