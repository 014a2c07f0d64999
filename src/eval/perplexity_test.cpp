#include "eval/perplexity.h"

#include <cmath>

#include <gtest/gtest.h>

#include "core/json.h"
#include "io/json_file.h"

// Against NumPy and SciPy (tests/reference/make_divergence_goldens.py).
namespace nibble::eval {
namespace {

using core::Json;

const Json& golden() {
  static const Json json =
      io::load_json_file(NIBBLE_SOURCE_DIR "/src/eval/goldens/divergence.json")["models"];
  return json;
}

// A model whose logits are a row of a table, chosen by the token before.
class TableRunner final : public engine::Runner {
 public:
  TableRunner(std::vector<float> table, std::int64_t vocabulary)
      : table_(std::move(table)), vocabulary_(vocabulary) {}

  void score_texts(std::span<const engine::ScoredText> texts,
                   const engine::ConsumeLogits& consume) override {
    std::vector<float> logits;
    for (const engine::ScoredText& text : texts) {
      for (const std::int32_t token : text.tokens) {
        const auto row = table_.begin() + token * vocabulary_;
        logits.insert(logits.end(), row, row + vocabulary_);
      }
    }
    const auto rows = static_cast<std::int64_t>(logits.size()) / vocabulary_;
    const std::int64_t first = rows / 2;  // in two chunks
    const auto cut = static_cast<std::size_t>(first * vocabulary_);
    consume(0, {std::span(logits).first(cut), first, vocabulary_});
    consume(first, {std::span(logits).subspan(cut), rows - first, vocabulary_});
  }
  core::ThreadPool& pool() override { return pool_; }
  engine::DeviceLimits measure_limits() override { return {}; }

  void make_pages(std::int64_t) override {}
  std::int64_t pages() const override { return 0; }
  std::int64_t page_bytes() const override { return 0; }
  std::int64_t room_for_pages() const override { return 0; }
  bool rows_are_independent() const override { return true; }
  std::vector<float> hidden_sum(const engine::Slice&) override { return {}; }
  engine::LogitsView forward(std::span<const engine::Slice>) override { return {}; }
  std::int64_t bytes_per_token() const override { return 0; }
  std::int64_t peak_bytes() const override { return 0; }

 private:
  std::vector<float> table_;
  std::int64_t vocabulary_;
  core::ThreadPool pool_{1};
};

class Perplexity : public ::testing::Test {
 protected:
  static TableRunner runner(std::size_t number) {
    return {golden()["logits"][number].get<std::vector<float>>(),
            golden()["vocabulary"].get<std::int64_t>()};
  }
  static double number(const char* key) { return golden()[key].get<double>(); }

  PerplexityResult measure(engine::Runner& model, engine::Runner* reference) {
    PerplexityOptions options;
    options.seq_len = golden()["window"].get<std::int64_t>();
    return measure_perplexity(model, tokens_, options, core::silent_progress(), reference);
  }

  std::vector<std::int32_t> tokens_ = golden()["tokens"].get<std::vector<std::int32_t>>();
};

// Logits are float32, and sums over the vocabulary too: 1e-6 of values near 1.
constexpr double kTolerance = 4e-6;

TEST_F(Perplexity, DivergenceFromAReferenceAsInNumpy) {
  TableRunner model = runner(0);
  TableRunner reference = runner(1);
  const PerplexityResult result = measure(model, &reference);
  EXPECT_NEAR(result.nll.value, number("nll"), kTolerance);
  EXPECT_NEAR(result.nll.standard_error, number("nll_standard_error"), kTolerance);
  ASSERT_TRUE(result.divergence.has_value());
  const Divergence divergence = result.divergence.value_or(Divergence{});
  EXPECT_NEAR(divergence.kl.value, number("kl"), kTolerance);
  EXPECT_NEAR(divergence.kl.standard_error, number("kl_standard_error"), kTolerance);
  EXPECT_NEAR(divergence.kl.window_standard_error, number("kl_window_standard_error"), kTolerance);
  EXPECT_NEAR(divergence.kl_median, number("kl_median"), kTolerance);
  EXPECT_NEAR(divergence.kl_p999, number("kl_p999"), kTolerance);
  EXPECT_NEAR(divergence.top1_agreement, number("top1_agreement"), 1e-12);
  EXPECT_NEAR(divergence.top1_standard_error, number("top1_standard_error"), 1e-12);
  EXPECT_NEAR(divergence.nll_increase.value, number("nll_increase"), kTolerance);
  EXPECT_NEAR(divergence.nll_increase.standard_error, number("nll_increase_standard_error"),
              kTolerance);
}

TEST_F(Perplexity, NothingDivergesFromItself) {
  TableRunner model = runner(0);
  TableRunner same = runner(0);
  const Divergence divergence = measure(model, &same).divergence.value_or(Divergence{});
  EXPECT_NEAR(divergence.kl_p999, 0, 1e-7);
  EXPECT_EQ(divergence.top1_agreement, 1);
  EXPECT_EQ(divergence.nll_increase.value, 0);
  EXPECT_EQ(divergence.nll_increase.standard_error, 0);
}

TEST_F(Perplexity, RefusesAReferenceWithoutFiniteLogits) {
  TableRunner model = runner(0);
  auto table = golden()["logits"][1].get<std::vector<float>>();
  std::fill(table.begin(), table.end(), std::nanf(""));
  TableRunner broken(table, golden()["vocabulary"].get<std::int64_t>());
  EXPECT_THROW(measure(model, &broken), core::Error);
}

}  // namespace
}  // namespace nibble::eval
