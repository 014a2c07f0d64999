#include "eval/strategy/model_loss.h"

#include <cmath>

#include "core/error.h"
#include "engine/encoder.h"
#include "engine/text_to_text.h"
#include "eval/glue/run_glue.h"
#include "eval/log_softmax.h"
#include "eval/perplexity.h"
#include "eval/strategy/model_step.h"

namespace nibble::eval {
namespace {

class TaskLoss final : public ModelLoss {
 public:
  TaskLoss(const std::shared_ptr<const models::Model>& original, GlueItems items,
           engine::RunnerOptions runner)
      : items_(std::move(items)), runner_(std::move(runner)), reference_(score(original)) {}

  std::string name() const override {
    return fmt::format("{} {}", items_.task->name, to_string(items_.task->metrics.front()));
  }
  double of(const std::shared_ptr<const models::Model>& model) override {
    return reference_ - score(model);
  }

 private:
  double score(const std::shared_ptr<const models::Model>& model) const {
    const auto encoder = engine::make_encoder(model, runner_);
    return run_glue(*encoder, *model, *items_.task, items_.items,
                    engine::input_options(*model, *encoder), items_.file, core::silent_progress())
        .metrics.front()
        .second;
  }

  GlueItems items_;
  engine::RunnerOptions runner_;
  double reference_;
};

class TextLoss final : public ModelLoss {
 public:
  TextLoss(const std::shared_ptr<const models::Model>& original, std::vector<std::int32_t> tokens,
           engine::RunnerOptions runner)
      : tokens_(std::move(tokens)), runner_(std::move(runner)), reference_(nll(original)) {}

  std::string name() const override { return "nats for each token"; }
  double of(const std::shared_ptr<const models::Model>& model) override {
    return nll(model) - reference_;
  }

 private:
  double nll(const std::shared_ptr<const models::Model>& model) const {
    const auto runner = engine::make_runner(model, runner_);
    const PerplexityOptions options{model->network.config.max_positions, 0};
    return measure_perplexity(*runner, tokens_, options, core::silent_progress()).nll.value;
  }

  std::vector<std::int32_t> tokens_;
  engine::RunnerOptions runner_;
  double reference_;
};

class PairsLoss final : public ModelLoss {
 public:
  PairsLoss(const std::shared_ptr<const models::Model>& original, std::vector<AnalysisText> pairs,
            engine::RunnerOptions runner)
      : pairs_(std::move(pairs)), runner_(std::move(runner)), reference_(nll(original)) {}

  std::string name() const override { return "nats for each token of a target"; }
  double of(const std::shared_ptr<const models::Model>& model) override {
    return nll(model) - reference_;
  }

 private:
  double nll(const std::shared_ptr<const models::Model>& model) const {
    const auto writer = engine::make_text_to_text(model, runner_);
    double sum = 0;
    std::int64_t tokens = 0;
    for (const AnalysisText& pair : pairs_) {
      const auto target = std::span(pair.target).subspan(1);  // without the start token
      const engine::EncoderRows rows = writer->score(pair.source, target);
      for (std::size_t i = 0; i < target.size(); ++i) {
        const auto logits = rows.row(static_cast<std::int64_t>(i));
        sum += log_sum_exp(logits) - logits[static_cast<std::size_t>(target[i])];
      }
      tokens += std::ssize(target);
    }
    return sum / static_cast<double>(tokens);
  }

  std::vector<AnalysisText> pairs_;
  engine::RunnerOptions runner_;
  double reference_;
};

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double product = 0;
  double squares_a = 0;
  double squares_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product += static_cast<double>(a[i]) * b[i];
    squares_a += static_cast<double>(a[i]) * a[i];
    squares_b += static_cast<double>(b[i]) * b[i];
  }
  return product / std::sqrt(squares_a * squares_b);
}

class OutputLoss final : public ModelLoss {
 public:
  OutputLoss(const std::shared_ptr<const models::Model>& original, std::int64_t batch,
             std::int64_t seq, engine::RunnerOptions runner)
      : batch_(batch), seq_(seq), runner_(std::move(runner)), reference_(outputs(original)) {}

  std::string name() const override { return "1 - cosine of the outputs"; }
  double of(const std::shared_ptr<const models::Model>& model) override {
    return 1 - cosine(outputs(model), reference_);
  }

 private:
  std::vector<float> outputs(const std::shared_ptr<const models::Model>& model) const {
    return make_model_step(model, batch_, seq_, runner_)->outputs();
  }

  std::int64_t batch_;
  std::int64_t seq_;
  engine::RunnerOptions runner_;
  std::vector<float> reference_;
};

}  // namespace

std::unique_ptr<ModelLoss> task_loss(const std::shared_ptr<const models::Model>& original,
                                     GlueItems items, const engine::RunnerOptions& runner) {
  return std::make_unique<TaskLoss>(original, std::move(items), runner);
}

std::unique_ptr<ModelLoss> text_loss(const std::shared_ptr<const models::Model>& original,
                                     std::vector<std::int32_t> tokens,
                                     const engine::RunnerOptions& runner) {
  return std::make_unique<TextLoss>(original, std::move(tokens), runner);
}

std::unique_ptr<ModelLoss> pairs_loss(const std::shared_ptr<const models::Model>& original,
                                      std::vector<AnalysisText> pairs,
                                      const engine::RunnerOptions& runner) {
  return std::make_unique<PairsLoss>(original, std::move(pairs), runner);
}

std::unique_ptr<ModelLoss> output_loss(const std::shared_ptr<const models::Model>& original,
                                       std::int64_t batch, std::int64_t seq,
                                       const engine::RunnerOptions& runner) {
  return std::make_unique<OutputLoss>(original, batch, seq, runner);
}

}  // namespace nibble::eval
