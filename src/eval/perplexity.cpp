#include "eval/perplexity.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/error.h"
#include "eval/log_softmax.h"

namespace nibble::eval {
namespace {

using core::ErrorKind;
using engine::LogitsView;

// What one prediction adds.
struct Prediction {
  double nll = 0;
  double kl = 0;
  bool same_top = false;
};

class WindowScorer {
 public:
  WindowScorer(engine::Runner& runner, engine::Runner* reference)
      : runner_(runner), reference_(reference) {}

  // One Prediction for each token of the window but the first.
  std::vector<Prediction> score(std::span<const std::int32_t> window) {
    if (reference_ != nullptr) {
      remember_reference(window);
    }
    std::vector<Prediction> predictions(window.size() - 1);
    runner_.score(window, [&](std::int64_t first, const LogitsView& logits) {
      runner_.pool().parallel_for(logits.rows, 4, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const auto row = static_cast<std::size_t>(first + i);
          if (row + 1 < window.size()) {
            predictions[row] = predict(logits.row(i), window[row + 1], row);
          }
        }
      });
    });
    return predictions;
  }

 private:
  void remember_reference(std::span<const std::int32_t> window) {
    reference_->score(window, [&](std::int64_t first, const LogitsView& logits) {
      vocabulary_ = static_cast<std::size_t>(logits.vocabulary);
      reference_logits_.resize(window.size() * vocabulary_);
      std::copy(logits.values.begin(), logits.values.end(),
                reference_logits_.begin() + static_cast<std::ptrdiff_t>(first * logits.vocabulary));
    });
  }

  Prediction predict(std::span<const float> logits, std::int32_t token, std::size_t row) const {
    Prediction prediction;
    const double total = log_sum_exp(logits);
    prediction.nll = total - static_cast<double>(logits[static_cast<std::size_t>(token)]);
    core::require(std::isfinite(prediction.nll), ErrorKind::kFailed,
                  "the model computed NaN or infinite logits; its weights may be damaged");
    if (reference_ == nullptr) {
      return prediction;
    }
    const std::span<const float> reference(reference_logits_.data() + row * vocabulary_,
                                           vocabulary_);
    core::require(reference.size() == logits.size(), ErrorKind::kUsage,
                  "the reference has a vocabulary of {}, the model of {}", reference.size(),
                  logits.size());
    const double reference_total = log_sum_exp(reference);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double log_p = static_cast<double>(reference[i]) - reference_total;
      const double log_q = static_cast<double>(logits[i]) - total;
      prediction.kl += std::exp(log_p) * (log_p - log_q);
    }
    prediction.same_top = arg_max(reference) == arg_max(logits);
    return prediction;
  }

  engine::Runner& runner_;
  engine::Runner* reference_;
  std::vector<float> reference_logits_;  // [window, vocabulary]
  std::size_t vocabulary_ = 0;
};

}  // namespace

PerplexityResult measure_perplexity(engine::Runner& runner, std::span<const std::int32_t> tokens,
                                    const PerplexityOptions& options, core::ProgressSink& progress,
                                    engine::Runner* reference) {
  const auto start = std::chrono::steady_clock::now();
  core::require(options.seq_len >= 2, ErrorKind::kUsage,
                "a window of {} tokens predicts nothing; use at least 2", options.seq_len);
  PerplexityResult result;
  result.text_tokens = static_cast<std::int64_t>(tokens.size());
  const std::int64_t used = options.max_tokens > 0
                                ? std::min(options.max_tokens, result.text_tokens)
                                : result.text_tokens;
  const std::int64_t windows = used / options.seq_len;
  core::require(
      windows > 0, ErrorKind::kUsage,
      "the text has {} tokens, fewer than one window of {}; give more text or a smaller --seq-len",
      used, options.seq_len);
  WindowScorer scorer(runner, reference);
  double sum = 0;
  double squares = 0;
  Divergence divergence;
  progress.begin("perplexity", windows);
  for (std::int64_t i = 0; i < windows; ++i) {
    const auto window = tokens.subspan(static_cast<std::size_t>(i * options.seq_len),
                                       static_cast<std::size_t>(options.seq_len));
    for (const Prediction& prediction : scorer.score(window)) {
      sum += prediction.nll;
      squares += prediction.nll * prediction.nll;
      divergence.kl_divergence += prediction.kl;
      divergence.top1_agreement += prediction.same_top ? 1 : 0;
      ++result.predictions;
    }
    progress.update(i + 1,
                    fmt::format("{:.4f}", std::exp(sum / static_cast<double>(result.predictions))));
  }
  progress.end();
  const auto count = static_cast<double>(result.predictions);
  result.nll = sum / count;
  result.nll_standard_error =
      std::sqrt(std::max(0.0, squares / count - result.nll * result.nll) / count);
  result.perplexity = std::exp(result.nll);
  if (reference != nullptr) {
    result.divergence =
        Divergence{divergence.kl_divergence / count, divergence.top1_agreement / count};
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace nibble::eval
