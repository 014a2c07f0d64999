#include "eval/strategy/model_step.h"

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "core/random.h"
#include "engine/encoder.h"
#include "engine/text_to_text.h"

namespace nibble::eval {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr double kSeconds = 0.3;      // of readings
constexpr std::size_t kReadings = 5;  // at least

std::vector<Tokens> random_texts(std::int64_t batch, std::int64_t seq, std::int64_t vocabulary,
                                 std::uint64_t seed = 1) {
  core::Random random(seed);
  std::vector<Tokens> texts(static_cast<std::size_t>(batch), Tokens(static_cast<std::size_t>(seq)));
  for (Tokens& text : texts) {
    for (std::int32_t& token : text) {
      token = static_cast<std::int32_t>(random.below(vocabulary));
    }
  }
  return texts;
}

class EncoderStep final : public ModelStep {
 public:
  EncoderStep(const std::shared_ptr<const models::Model>& model, std::int64_t batch,
              std::int64_t seq, const engine::RunnerOptions& runner)
      : texts_(random_texts(batch, seq, model->network.config.vocabulary)),
        labels_(model->network.classifier.has_value()),
        encoder_(engine::make_encoder(model, runner)) {
    for (const Tokens& text : texts_) {
      inputs_.push_back({text, {}});
    }
  }

  std::vector<float> outputs() override { return encoder_->hidden_states(inputs_).values; }
  void run() override { labels_ ? encoder_->classify(inputs_) : encoder_->hidden_states(inputs_); }

 private:
  std::vector<Tokens> texts_;
  bool labels_;
  std::unique_ptr<engine::Encoder> encoder_;
  std::vector<engine::EncoderText> inputs_;
};

class DecoderStep final : public ModelStep {
 public:
  DecoderStep(const std::shared_ptr<const models::Model>& model, std::int64_t batch,
              std::int64_t seq, const engine::RunnerOptions& runner)
      : texts_(random_texts(batch, seq, model->network.config.vocabulary)),
        runner_(engine::make_runner(model, runner)) {}

  std::vector<float> outputs() override {
    std::vector<float> logits;
    runner_->score_texts(scored(0), [&](std::int64_t, const engine::LogitsView& rows) {
      logits.insert(logits.end(), rows.values.begin(), rows.values.end());
    });
    return logits;
  }
  void run() override {
    const auto last = static_cast<std::int64_t>(texts_.front().size()) - 1;
    runner_->score_texts(scored(last), [](std::int64_t, const engine::LogitsView&) {});
  }

 private:
  std::vector<engine::ScoredText> scored(std::int64_t first_row) const {
    std::vector<engine::ScoredText> scored;
    for (const Tokens& text : texts_) {
      scored.push_back({text, first_row});
    }
    return scored;
  }

  std::vector<Tokens> texts_;
  std::unique_ptr<engine::Runner> runner_;
};

// What is written is given.
class PairStep final : public ModelStep {
 public:
  PairStep(const std::shared_ptr<const models::Model>& model, std::int64_t batch, std::int64_t seq,
           const engine::RunnerOptions& runner)
      : sources_(random_texts(batch, seq, model->network.config.vocabulary)),
        targets_(random_texts(batch, seq, model->network.config.vocabulary, 2)),
        start_(model->network.config.decoder_start.value()),
        writer_(engine::make_text_to_text(model, runner)) {}

  std::vector<float> outputs() override {
    std::vector<float> logits;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const engine::EncoderRows rows = writer_->score(sources_[i], targets_[i]);
      logits.insert(logits.end(), rows.values.begin(), rows.values.end());
    }
    return logits;
  }

  void run() override {
    const std::vector<std::span<const std::int32_t>> sources(sources_.begin(), sources_.end());
    const std::int64_t tokens = std::ssize(targets_.front());
    writer_->read(sources, {std::ssize(sources), tokens});
    for (std::int64_t at = 0; at < tokens; ++at) {
      std::vector<engine::DecoderRow> rows;
      for (std::int64_t text = 0; text < std::ssize(sources); ++text) {
        rows.push_back({text, at == 0 ? -1 : text, token(text, at)});
      }
      writer_->step(rows);
    }
  }

 private:
  // What the decoder reads at a place of a text.
  std::int32_t token(std::int64_t text, std::int64_t at) const {
    const Tokens& target = targets_[static_cast<std::size_t>(text)];
    return at == 0 ? start_ : target[static_cast<std::size_t>(at - 1)];
  }

  std::vector<Tokens> sources_;
  std::vector<Tokens> targets_;
  std::int32_t start_;
  std::unique_ptr<engine::TextToText> writer_;
};

}  // namespace

std::unique_ptr<ModelStep> make_model_step(const std::shared_ptr<const models::Model>& model,
                                           std::int64_t batch, std::int64_t seq,
                                           const engine::RunnerOptions& runner) {
  const models::Network& network = model->network;
  core::require(batch >= 1 && seq >= 1 && seq <= network.config.max_positions,
                core::ErrorKind::kUsage,
                "{} texts of {} tokens make no step of a model made for 1 to {} tokens", batch, seq,
                network.config.max_positions);
  if (network.has_encoder() && network.has_decoder()) {
    return std::make_unique<PairStep>(model, batch, seq, runner);
  }
  if (network.has_encoder()) {
    return std::make_unique<EncoderStep>(model, batch, seq, runner);
  }
  return std::make_unique<DecoderStep>(model, batch, seq, runner);
}

double step_microseconds(ModelStep& step) {
  using Clock = std::chrono::steady_clock;
  step.run();  // warms up
  std::vector<double> readings;
  double total = 0;
  while (total < kSeconds || readings.size() < kReadings) {
    const auto start = Clock::now();
    step.run();
    readings.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    total += readings.back();
  }
  std::sort(readings.begin(), readings.end());
  return 1e6 * readings[readings.size() / 2];
}

}  // namespace nibble::eval
