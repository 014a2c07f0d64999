#include <filesystem>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/ngram_drafts.h"
#include "engine/page_reading_runner_for_tests.h"
#include "io/allocation_counter_for_tests.h"

// Memory that is refused at any one place fails the requests that needed it: no page is lost, and
// the next request is served.
namespace nibble::engine {
namespace {

constexpr std::int64_t kVocabulary = 40;

TEST(AllocationFailures, FailARequestAndLoseNothing) {
  auto model = std::make_shared<models::Model>(
      *models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "models" / "demo"));
  model->decoder.config.vocabulary = kVocabulary;
  model->decoder.config.max_positions = 160;
  auto runner = std::make_unique<testing::PageReadingRunner>(kVocabulary);
  EngineOptions options;
  options.kv_bytes = 7 * runner->page_bytes();
  options.prefill_rows = 24;
  Engine engine(model, std::move(runner), options, std::make_unique<NgramDrafts>(3));
  int ended = 0;
  int failed = 0;
  std::vector<std::int32_t> last;
  last.reserve(256);
  const auto submit = [&] {
    for (int i = 0; i < 2; ++i) {  // too many for the pages: one is preempted
      Request request;
      request.prompt.assign(static_cast<std::size_t>(37 + i), 3);
      request.max_tokens = 30;
      request.sampling.temperature = 0;
      request.sampling.frequency_penalty = 0.1f;
      request.ignore_end_tokens = true;
      request.log_probabilities = 2;
      request.on_finish = [&](const Completion& completion) {
        ++ended;
        failed += completion.reason == FinishReason::kFailed ? 1 : 0;
        last.assign(completion.tokens.begin(), completion.tokens.end());
      };
      engine.submit(std::move(request));
    }
  };
  submit();
  engine.run_all();
  const std::vector<std::int32_t> expected = last;
  ASSERT_EQ(expected.size(), 30u);
  ASSERT_GT(engine.state().preemptions, 0);
  std::int64_t place = 0;
  for (bool reached = true; reached; ++place) {
    submit();
    ended = failed = 0;
    io::refuse_allocation_after(place);
    while (engine.step()) {
    }
    reached = !io::refusal_is_pending();
    io::refuse_allocation_after(-1);
    ASSERT_EQ(ended, 2) << "allocation " << place;
    ASSERT_EQ(failed > 0, reached) << "allocation " << place;
    ASSERT_EQ(engine.state().pages_in_use, 0) << "allocation " << place;
    submit();
    engine.run_all();
    ASSERT_EQ(last, expected) << "after allocation " << place;
  }
  EXPECT_GT(place, 300) << "every allocation was tried";
}

}  // namespace
}  // namespace nibble::engine
