#include <filesystem>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.h"
#include "engine/engine.h"
#include "engine/ngram_drafts.h"
#include "engine/page_reading_runner_for_tests.h"
#include "formats/format.h"
#include "formats/packed_weight.h"
#include "io/allocation_counter_for_tests.h"
#include "ops/cpu/packed/packed_linear.h"

// Memory that is refused at any one place fails the requests that needed it: no page is lost, and
// the next request is served.
namespace nibble::engine {
namespace {

constexpr std::int64_t kVocabulary = 40;

std::shared_ptr<const models::Model> small_model() {
  auto model = std::make_shared<models::Model>(
      *models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "models" / "demo"));
  model->network.config.vocabulary = kVocabulary;
  model->network.config.max_positions = 160;
  return model;
}

// Requests for two texts of a repeated token, too many for seven pages: one is preempted.
class TwoTexts {
 public:
  using Ask = std::function<void(Request&)>;

  TwoTexts(Engine& engine, Ask ask) : engine_(engine), ask_(std::move(ask)) { last.reserve(256); }

  void submit() {
    ended = failed = 0;
    for (int i = 0; i < 2; ++i) {
      Request request;
      request.prompt.assign(static_cast<std::size_t>(37 + i), 3);
      request.max_tokens = 30;
      request.ignore_end_tokens = true;
      ask_(request);
      request.on_finish = [this](const Completion& completion) {
        ++ended;
        failed += completion.reason == FinishReason::kFailed ? 1 : 0;
        last.assign(completion.tokens.begin(), completion.tokens.end());
      };
      engine_.submit(std::move(request));
    }
  }

  int ended = 0;
  int failed = 0;
  std::vector<std::int32_t> last;

 private:
  Engine& engine_;
  Ask ask_;
};

// Refuses each allocation of a load in turn, then runs another load; check(place, reached) comes
// between. How many there were.
template <typename Check>
std::int64_t refuse_each(Engine& engine, TwoTexts& texts, Check check) {
  texts.submit();
  engine.run_all();
  const std::vector<std::int32_t> expected = texts.last;
  EXPECT_EQ(expected.size(), 30u);
  EXPECT_GT(engine.state().preemptions, 0);
  std::int64_t place = 0;
  for (bool reached = true; reached && !::testing::Test::HasFailure(); ++place) {
    SCOPED_TRACE(place);
    texts.submit();
    io::refuse_allocation_after(place);
    while (engine.step()) {
    }
    reached = !io::refusal_is_pending();
    io::refuse_allocation_after(-1);
    EXPECT_EQ(texts.ended, 2);
    EXPECT_EQ(engine.state().pages_in_use, 0);
    check(reached);
    texts.submit();
    engine.run_all();
    EXPECT_EQ(texts.last, expected);
  }
  return place;
}

TEST(AllocationFailures, FailARequestAndLoseNothing) {
  auto runner = std::make_unique<testing::PageReadingRunner>(kVocabulary);
  EngineOptions options;
  options.kv_bytes = 7 * runner->page_bytes();
  options.prefill_rows = 24;
  options.swap_bytes = 0;
  Engine engine(small_model(), std::move(runner), options, std::make_unique<NgramDrafts>(3));
  TwoTexts texts(engine, [](Request& request) {
    request.sampling.temperature = 0;
    request.sampling.frequency_penalty = 0.1f;
    request.log_probabilities = 2;
  });
  const std::int64_t places =
      refuse_each(engine, texts, [&](bool reached) { EXPECT_EQ(texts.failed > 0, reached); });
  EXPECT_GT(places, 300) << "every allocation was tried";
}

// What is refused to a step ahead, or to swapping, does not fail a request: the step is computed in
// its turn, or the text again.
TEST(AllocationFailures, LoseNothingOfStepsAheadAndSwappedPages) {
  auto owned = std::make_unique<testing::PageReadingRunner>(kVocabulary);
  testing::PageReadingRunner& runner = *owned;
  runner.steps_ahead = true;
  EngineOptions options;
  options.kv_bytes = 7 * runner.page_bytes();
  options.prefill_rows = 24;
  options.swap_bytes = 10 * runner.page_bytes();
  Engine engine(small_model(), std::move(owned), options);
  TwoTexts texts(engine, [](Request& request) { request.sampling.seed = 5; });
  std::int64_t survived = 0;
  const std::int64_t places = refuse_each(engine, texts, [&](bool reached) {
    survived += reached && texts.failed == 0 ? 1 : 0;
    EXPECT_EQ(runner.under_way(), 0u);
    EXPECT_EQ(runner.swap_room(), 10);
  });
  EXPECT_GT(engine.state().swapped_tokens, 0);
  EXPECT_GT(places, 300) << "every allocation was tried";
  EXPECT_GT(survived, 50);
}

// Checks of the hot loops cost no memory while they hold: their messages are made when they fail.
TEST(Allocations, ReadingWeightsMakesNone) {
  constexpr std::int64_t kRows = 64;
  constexpr std::int64_t kInputs = 256;
  core::Random random(3);
  std::vector<float> w(kRows * kInputs);
  for (float& value : w) {
    value = random.normal();
  }
  std::vector<float> row(kInputs);
  std::vector<float> scales(kInputs / 32);
  for (const char* scheme : {"int4-asym-g32", "int8-sym-g32", "lut4-nf4-g32", "mxfp4"}) {
    const auto weight = formats::round_to_nearest(w, kRows, kInputs, formats::parse_scheme(scheme));
    formats::decode_row(weight, 0, row);
    const std::size_t before = io::allocated_bytes();
    for (std::int64_t i = 0; i < kRows; ++i) {
      formats::decode_row(weight, i, row);
      formats::unpack_scales(weight, i, scales);
      if (!formats::is_integer(weight.scheme)) {
        static_cast<void>(formats::book_of(weight, i));
      }
    }
    EXPECT_EQ(io::allocated_bytes(), before) << scheme;
  }
}

TEST(Allocations, ProductsOfPackedWeightsMakeNoneWhenRepeated) {
  constexpr std::int64_t kOutputs = 64;
  constexpr std::int64_t kInputs = 256;
  core::ThreadPool pool(1);
  const std::vector<float> w(kOutputs * kInputs, 0.5f);
  const auto linear = ops::cpu::PackedLinear::pack(
      formats::round_to_nearest(w, kOutputs, kInputs, formats::parse_scheme("int4-sym-g32")), pool);
  const ops::cpu::PackedLinear* const part = &linear;
  const std::vector<float> x(kInputs, 1.0f);
  std::vector<float> y(kOutputs);
  ops::cpu::QuantizedInput input;
  const auto multiply = [&] {
    ops::cpu::quantize_input(x.data(), 1, kInputs, kInputs, linear.needs(), input, pool);
    ops::cpu::packed_linear({&part, 1}, input, y.data(), kOutputs, pool);
  };
  multiply();
  const std::size_t before = io::allocated_bytes();
  multiply();
  EXPECT_EQ(io::allocated_bytes(), before);
}

}  // namespace
}  // namespace nibble::engine
