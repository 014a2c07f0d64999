#include <algorithm>

#include <gtest/gtest.h>

#include "engine/model_drafts.h"
#include "engine/ngram_drafts.h"
#include "engine/schedule_for_tests.h"

// What the engine does with its pages and its queue, over a runner that notices every wrong page.
namespace nibble::engine {
namespace {

using namespace testing;

TEST(Schedule, PlentyOfPages) {
  random_load(1, {.pages = 500, .drafts = nullptr});
}

TEST(Schedule, FewPagesPreempt) {
  for (std::uint64_t seed = 2; seed < 8; ++seed) {
    random_load(seed, {.pages = 12, .prefill_rows = 48, .drafts = nullptr});
  }
}

TEST(Schedule, WithoutAPrefixCache) {
  random_load(8, {.pages = 14, .prefill_rows = 30, .prefix_cache = false, .drafts = nullptr});
}

TEST(Schedule, GuessesFromTheTextChangeNothing) {
  for (std::uint64_t seed = 9; seed < 12; ++seed) {
    random_load(seed, {.pages = 16, .drafts = std::make_unique<NgramDrafts>(5)});
  }
}

TEST(Schedule, GuessesOfAModelChangeNothing) {
  for (std::uint64_t seed = 12; seed < 15; ++seed) {
    random_load(seed, {.pages = 16,
                       .drafts = std::make_unique<ModelDrafts>(
                           std::make_unique<PageReadingRunner>(kVocabulary), 4, 8, 160)});
  }
}

// A device that computes tokens of prompts in another way than those that a model writes.
TEST(Schedule, PromptsOfTheirOwnBitsChangeNothing) {
  for (std::uint64_t seed = 15; seed < 19; ++seed) {
    random_load(seed, {.pages = 12, .prefill_rows = 23, .prompts_alike = false, .drafts = nullptr});
    random_load(seed,
                {.pages = 16, .prompts_alike = false, .drafts = std::make_unique<NgramDrafts>(5)});
  }
}

TEST(Schedule, APreemptedSequenceIsComputedAgain) {
  const Tested tested = make_engine({.pages = 8, .drafts = nullptr});
  for (int i = 0; i < 3; ++i) {
    tested.engine->submit(plain(20 + i, 60));
  }
  tested.engine->run_all();
  EXPECT_GT(tested.engine->state().preemptions, 0);
}

TEST(Schedule, GuessesOfTheSameModelAreAllRight) {
  const Tested tested =
      make_engine({.drafts = std::make_unique<ModelDrafts>(
                       std::make_unique<PageReadingRunner>(kVocabulary), 4, 8, 160)});
  tested.engine->submit(plain(20, 60));
  tested.engine->run_all();
  const EngineState state = tested.engine->state();
  EXPECT_EQ(state.generated_tokens, 60);
  EXPECT_EQ(state.drafted_tokens, state.accepted_drafts);
  EXPECT_EQ(state.steps, 1 + 12) << "a prompt, then five tokens in each step, the last has four";
}

TEST(Schedule, PrefixesAreComputedOnce) {
  const Tested tested = make_engine({.drafts = nullptr});
  std::int64_t rows = 0;
  tested.runner->on_step = [&](std::span<const Slice> slices) {
    for (const Slice& slice : slices) {
      rows += std::ssize(slice.tokens);
    }
  };
  Completion second;
  tested.engine->submit(plain(70, 1));
  tested.engine->run_all();
  EXPECT_EQ(rows, 70);
  Request again = plain(70, 1);
  again.on_finish = [&](const Completion& completion) { second = completion; };
  tested.engine->submit(again);
  tested.engine->run_all();
  EXPECT_EQ(rows, 70 + 6) << "four whole pages were kept";
  EXPECT_EQ(second.cached_tokens, 64);
  again.cache_salt = "another key";
  tested.engine->submit(again);
  tested.engine->run_all();
  EXPECT_EQ(rows, 70 + 6 + 70);
  EXPECT_EQ(second.cached_tokens, 0);
}

TEST(Schedule, OnePageIsEnoughForWhatFitsIt) {
  const Tested tested = make_engine({.pages = 1, .drafts = nullptr});
  EXPECT_EQ(tested.engine->context(), 16);
  Completion result;
  Request request = plain(10, 100);
  request.on_finish = [&](const Completion& completion) { result = completion; };
  tested.engine->submit(request);
  tested.engine->submit(plain(3, 4));
  EXPECT_THROW(tested.engine->submit(plain(16, 1)), core::Error);
  tested.engine->run_all();
  EXPECT_EQ(result.tokens.size(), 6u);
  EXPECT_EQ(result.reason, FinishReason::kLength);
}

using StepSizes = std::vector<std::vector<std::size_t>>;

// Tokens of each slice of the steps that follow the first one of a text, when two prompts come.
StepSizes sizes_of_steps(const Tested& tested, int steps) {
  StepSizes sizes;
  tested.runner->on_step = [&](std::span<const Slice> slices) {
    sizes.emplace_back();
    for (const Slice& slice : slices) {
      sizes.back().push_back(slice.tokens.size());
    }
  };
  tested.engine->submit(plain(10, 30));
  tested.engine->step();
  tested.engine->submit(plain(40, 2));
  tested.engine->submit(plain(20, 2));
  sizes.clear();
  for (int i = 0; i < steps; ++i) {
    tested.engine->step();
  }
  return sizes;
}

TEST(Schedule, DecodingGoesOnBesideTheChunksOfPrompts) {
  const Tested tested = make_engine({.prefill_rows = 16, .prefix_cache = false, .drafts = nullptr});
  EXPECT_EQ(sizes_of_steps(tested, 5),
            (StepSizes{{1, 16}, {1, 16}, {1, 8, 8}, {1, 1, 12}, {1, 1}}));
}

TEST(Schedule, AStepHasNoMoreTokensOfPromptsThanTheRunnerTakes) {
  const Tested tested = make_engine({.prefill_rows = 4096, .drafts = nullptr});
  std::size_t most = 0;
  tested.runner->on_step = [&](std::span<const Slice> slices) {
    std::size_t rows = 0;
    for (const Slice& slice : slices) {
      rows += slice.tokens.size();
    }
    most = std::max(most, rows);
  };
  for (std::int64_t i = 0; i < 5; ++i) {
    tested.engine->submit(plain(140 + i, 1));
  }
  tested.engine->run_all();
  EXPECT_EQ(most, 512u);
}

TEST(Schedule, PromptsAreComputedAloneWhereTheirBitsMustNotDependOnOthers) {
  for (const bool independent : {false, true}) {
    const Tested tested = make_engine(
        {.prefill_rows = 64, .prefix_cache = false, .deterministic = true, .drafts = nullptr});
    tested.runner->independent = independent;
    EXPECT_EQ(sizes_of_steps(tested, 4), independent ? (StepSizes{{1, 40, 20}, {1, 1, 1}, {1}, {1}})
                                                     : (StepSizes{{40}, {1, 1}, {20}, {1, 1}}));
  }
}

// A prompt that goes on from an answer takes over pages of the answer only where they have the bits
// that it would compute itself.
TEST(Schedule, AnswersServeLaterPromptsWhereTheyAreAlike) {
  for (const bool alike : {false, true}) {
    const Tested tested = make_engine({.prompts_alike = alike, .drafts = nullptr});
    Completion first;
    Request request = plain(40, 50);
    request.on_finish = [&](const Completion& completion) { first = completion; };
    tested.engine->submit(request);
    tested.engine->run_all();
    Completion second;
    Request next = plain(40, 20);
    next.prompt.insert(next.prompt.end(), first.tokens.begin(), first.tokens.end());
    next.prompt.push_back(1);
    next.on_finish = [&](const Completion& completion) { second = completion; };
    tested.engine->submit(next);
    tested.engine->run_all();
    EXPECT_EQ(tested.engine->state().prefix_hits, alike ? 80 : 32);
    EXPECT_EQ(second.tokens, run_alone(next, alike).tokens);
  }
}

// What a preempted sequence has written stands in another's prompt: it is computed again where that
// is not alike.
TEST(Schedule, PromptsServePreemptedTextsWhereTheyAreAlike) {
  for (const bool alike : {false, true}) {
    const Request request = plain(40, 80);
    const std::vector<std::int32_t> written = run_alone(request, alike).tokens;
    const Tested tested = make_engine({.pages = 13, .prompts_alike = alike, .drafts = nullptr});
    Request longer = plain(40, 60);
    longer.prompt.insert(longer.prompt.end(), written.begin(), written.begin() + 60);
    tested.engine->submit(longer);
    Completion completion;
    Request watched = request;
    watched.on_finish = [&](const Completion& done) { completion = done; };
    tested.engine->submit(watched);
    tested.engine->run_all();
    EXPECT_GT(tested.engine->state().preemptions, 0);
    EXPECT_EQ(completion.tokens, written);
  }
}

TEST(Schedule, AStepThatFailsBesideAPromptIsComputedInParts) {
  decodes_beside_a_prompt_without_memory(make_engine({.drafts = nullptr}));
}

TEST(Schedule, AFailedStepFailsItsRequestsAndNoOthers) {
  const Tested tested = make_engine({.max_batch = 1, .drafts = nullptr});
  Completion failed;
  Completion served;
  Request request = plain(10, 5);
  request.on_finish = [&](const Completion& completion) { failed = completion; };
  tested.engine->submit(request);
  request.on_finish = [&](const Completion& completion) { served = completion; };
  tested.engine->submit(request);
  bool fail = true;
  tested.runner->on_step = [&](std::span<const Slice>) {
    if (std::exchange(fail, false)) {
      core::fail(core::ErrorKind::kFailed, "the device is gone");
    }
  };
  tested.engine->run_all();
  EXPECT_EQ(failed.reason, FinishReason::kFailed);
  EXPECT_THROW(rethrow_failure(failed), core::Error);
  EXPECT_EQ(served.tokens.size(), 5u);
  EXPECT_EQ(tested.engine->state().pages_in_use, 0);
}

TEST(Schedule, NanFailsItsOwnRequest) {
  const Tested tested = make_engine({.drafts = nullptr});
  std::vector<Completion> completions;
  submit_all(*tested.engine, {plain(10, 5), plain(11, 5)}, completions);
  tested.runner->nan_after = 11;
  tested.engine->run_all();
  EXPECT_EQ(completions[0].reason, FinishReason::kLength);
  EXPECT_EQ(completions[1].reason, FinishReason::kFailed);
}

TEST(Schedule, ARunnerThatOnlyFailsIsGivenUp) {
  const Tested tested = make_engine({.drafts = nullptr});
  int ended = 0;
  int steps = 0;
  tested.runner->on_step = [&](std::span<const Slice>) {
    core::fail(++steps == 2 ? core::ErrorKind::kOutOfMemory : core::ErrorKind::kFailed, "gone");
  };
  Request request = plain(10, 5);
  request.on_finish = [&](const Completion&) { ++ended; };
  for (int i = 0; i < Engine::kMaxFailedSteps; ++i) {
    tested.engine->submit(request);
    EXPECT_NO_THROW(tested.engine->run_all()) << i;
  }
  tested.engine->submit(request);
  EXPECT_THROW(tested.engine->run_all(), core::Error);
  EXPECT_EQ(ended, 4);
}

TEST(Schedule, RequestsMayBeCancelledAndSubmittedFromCallbacks) {
  const Tested tested = make_engine({.drafts = nullptr});
  Engine& engine = *tested.engine;
  RequestId other = 0;
  int ended = 0;
  Request victim = plain(12, 50);
  victim.on_finish = [&](const Completion& completion) {
    EXPECT_EQ(completion.reason, FinishReason::kCancelled);
    ++ended;
    Request more = plain(5, 3);
    more.on_finish = [&](const Completion& last) {
      EXPECT_EQ(last.reason, FinishReason::kLength);
      ++ended;
    };
    engine.submit(more);
  };
  Request killer = plain(9, 50);
  killer.on_piece = [&](const Piece&) { engine.cancel(other); };
  engine.submit(killer);
  other = engine.submit(victim);
  engine.run_all();
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(engine.state().pages_in_use, 0);
}

TEST(Schedule, EmbeddingsLeaveNoPages) {
  const Tested tested = make_engine({.pages = 4, .drafts = nullptr});
  const std::vector<std::int32_t> text(40, 3);
  const std::vector<float> once = tested.engine->embed(text);
  EXPECT_FLOAT_EQ(once.at(0), 0.5f);
  EXPECT_EQ(tested.engine->state().pages_in_use, 0);
  EXPECT_THROW((void)tested.engine->embed({}), core::Error);
}

}  // namespace
}  // namespace nibble::engine
