#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.h"
#include "engine/engine.h"
#include "engine/forwarding_runner.h"
#include "engine/page_reading_runner_for_tests.h"

/// Engines over a runner that notices every wrong page, and requests for them.
namespace nibble::engine::testing {

inline constexpr std::int64_t kVocabulary = 40;

// The demo model's tokenizer with a small vocabulary and a short context.
inline std::shared_ptr<const models::Model> small_model() {
  static const std::shared_ptr<const models::Model> model = [] {
    auto made = std::make_shared<models::Model>(
        *models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "models" / "demo"));
    made->network.config.vocabulary = kVocabulary;
    made->network.config.max_positions = 160;
    made->end_tokens = {7};
    return made;
  }();
  return model;
}

struct Setup {
  std::int64_t pages = 1000;
  std::int64_t max_batch = 8;
  std::int64_t prefill_rows = 512;
  bool prefix_cache = true;
  bool deterministic = false;
  bool independent = true;
  bool prompts_alike = true;
  bool steps_ahead = false;
  std::int64_t swapped_pages = 0;
  bool plain_requests = false;  // which draw from a few tokens or take the first, and no more
  std::unique_ptr<DraftSource> drafts = nullptr;
};

struct Tested {
  PageReadingRunner* runner;
  std::unique_ptr<Engine> engine;
};

inline Tested make_engine(Setup setup) {
  auto runner = std::make_unique<PageReadingRunner>(kVocabulary);
  PageReadingRunner* const seen = runner.get();
  runner->independent = setup.independent;
  runner->alike = setup.prompts_alike;
  runner->steps_ahead = setup.steps_ahead;
  EngineOptions options;
  options.max_batch = setup.max_batch;
  options.prefill_rows = setup.prefill_rows;
  options.prefix_cache = setup.prefix_cache;
  options.deterministic = setup.deterministic;
  options.swap_bytes = setup.swapped_pages * runner->page_bytes();
  options.kv_bytes = setup.pages * runner->page_bytes();
  return {seen, std::make_unique<Engine>(small_model(), std::move(runner), options,
                                         std::move(setup.drafts))};
}

inline Request random_request(core::Random& random) {
  Request request;
  const std::int64_t length = 1 + random.below(70);
  const auto kind = static_cast<std::int32_t>(random.below(3));  // of a few shared beginnings
  for (std::int64_t i = 0; i < length; ++i) {
    request.prompt.push_back(static_cast<std::int32_t>(i < 40 ? (kind + i * 3) % kVocabulary
                                                              : random.below(kVocabulary)));
  }
  request.max_tokens = 1 + random.below(80);
  request.sampling.temperature = random.below(2) == 0 ? 0.0f : 1.2f;
  request.sampling.seed = random.bits();
  request.ignore_end_tokens = random.below(2) == 0;
  if (random.below(3) == 0) {
    request.sampling.repetition_penalty = 1.3f;
    request.sampling.frequency_penalty = 0.2f;
  }
  if (random.below(4) == 0) {
    request.log_probabilities = random.below(4);
  }
  if (random.below(5) == 0) {
    request.prompt_log_probabilities = random.below(3);
  }
  return request;
}

inline Request random_plain_request(core::Random& random) {
  Request request = random_request(random);
  request.sampling.repetition_penalty = 1.0f;
  request.sampling.frequency_penalty = 0.0f;
  request.sampling.top_k = random.below(2) == 0 ? 0 : 1 + random.below(ops::kMostDrawn);
  request.sampling.top_p = random.below(2) == 0 ? 1.0f : 0.8f;
  request.log_probabilities.reset();
  request.prompt_log_probabilities.reset();
  return request;
}

inline Completion run_alone(Request request, bool prompts_alike = true) {
  Completion result;
  request.on_finish = [&](const Completion& completion) { result = completion; };
  const Tested tested = make_engine({.pages = 1000,
                                     .max_batch = 1,
                                     .prefix_cache = false,
                                     .prompts_alike = prompts_alike,
                                     .drafts = nullptr});
  tested.engine->submit(std::move(request));
  tested.engine->run_all();
  return result;
}

inline void expect_same(const std::vector<TokenRecord>& a, const std::vector<TokenRecord>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].chosen.token, b[i].chosen.token);
    EXPECT_EQ(a[i].chosen.log_probability, b[i].chosen.log_probability);
    EXPECT_EQ(a[i].most_probable.size(), b[i].most_probable.size());
  }
}

// Random requests come, are cancelled and end in engines with too few pages: what ends by itself
// is what it is alone, and nothing is left behind.
inline void random_load(std::uint64_t seed, Setup setup) {
  core::Random random(seed);
  const std::int64_t pages = setup.pages;
  const bool prompts_alike = setup.prompts_alike;
  const bool plain_requests = setup.plain_requests;
  const std::int64_t swapped_pages = setup.swapped_pages;
  const Tested tested = make_engine(std::move(setup));
  Engine& engine = *tested.engine;
  std::map<RequestId, Request> requests;
  std::map<RequestId, Completion> finished;
  std::set<RequestId> cancelled;
  std::int64_t pieces = 0;
  for (int i = 0; i < 400; ++i) {
    if (i < 300 && random.below(3) == 0) {
      Request request = plain_requests ? random_plain_request(random) : random_request(random);
      auto id = std::make_shared<RequestId>();
      request.on_piece = [&pieces](const Piece&) { ++pieces; };
      request.on_finish = [&finished, id](const Completion& completion) {
        ASSERT_FALSE(finished.contains(*id)) << "it ended twice";
        finished[*id] = completion;
      };
      *id = engine.submit(request);
      requests.emplace(*id, request);
    }
    if (random.below(12) == 0 && !requests.empty()) {
      auto at = requests.begin();
      std::advance(at, random.below(std::ssize(requests)));
      cancelled.insert(at->first);
      engine.cancel(at->first);
    }
    engine.step();
    const EngineState state = engine.state();
    ASSERT_LE(state.pages_in_use, pages);
    ASSERT_LE(state.running, 8);
  }
  engine.run_all();
  const EngineState state = engine.state();
  EXPECT_EQ(state.pages_in_use, 0);
  EXPECT_EQ(state.running + state.waiting, 0);
  ASSERT_EQ(finished.size(), requests.size());
  std::int64_t compared = 0;
  for (const auto& [id, completion] : finished) {
    const Completion alone = run_alone(requests.at(id), prompts_alike);
    if (completion.reason == FinishReason::kCancelled) {
      EXPECT_TRUE(cancelled.contains(id));
      ASSERT_LE(completion.tokens.size(), alone.tokens.size());
      EXPECT_TRUE(
          std::equal(completion.tokens.begin(), completion.tokens.end(), alone.tokens.begin()));
      continue;
    }
    ++compared;
    ASSERT_EQ(completion.tokens, alone.tokens) << "request " << id;
    EXPECT_EQ(completion.text, alone.text);
    EXPECT_EQ(completion.reason, alone.reason);
    expect_same(completion.records, alone.records);
    expect_same(completion.prompt_records, alone.prompt_records);
  }
  EXPECT_GT(compared, 40);
  EXPECT_EQ(tested.runner->swap_room(), swapped_pages);
  EXPECT_EQ(state.swapped_tokens > 0, swapped_pages > 0);
  EXPECT_EQ(tested.runner->under_way(), 0u);
  if (tested.runner->steps_ahead && plain_requests) {
    EXPECT_EQ(tested.runner->most_under_way, 2u);
  }
}

inline Request plain(std::int64_t prompt, std::int64_t max_tokens) {
  Request request;
  for (std::int64_t i = 0; i < prompt; ++i) {
    request.prompt.push_back(static_cast<std::int32_t>(i * 5 % kVocabulary));
  }
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.ignore_end_tokens = true;
  return request;
}

/// Completion i is that of request i when it has ended.
inline void submit_all(Engine& engine, std::vector<Request> requests,
                       std::vector<Completion>& completions) {
  completions.assign(requests.size(), {});
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].on_finish = [&completions, i](const Completion& done) { completions[i] = done; };
    engine.submit(std::move(requests[i]));
  }
}

/// There may be no memory for a prompt: who decodes beside it goes on.
inline void decodes_beside_a_prompt_without_memory(const Tested& tested) {
  std::vector<Completion> decoding;
  submit_all(*tested.engine, {plain(10, 6)}, decoding);
  tested.engine->step();
  tested.runner->on_step = [](std::span<const Slice> slices) {
    for (const Slice& slice : slices) {
      core::require(slice.tokens.size() < 40, core::ErrorKind::kOutOfMemory, "no memory");
    }
  };
  std::vector<Completion> prompt;
  submit_all(*tested.engine, {plain(40, 6)}, prompt);
  tested.engine->run_all();
  EXPECT_EQ(decoding[0].reason, FinishReason::kLength);
  EXPECT_EQ(decoding[0].tokens, run_alone(plain(10, 6)).tokens);
  EXPECT_EQ(prompt[0].reason, FinishReason::kFailed);
}

}  // namespace nibble::engine::testing
