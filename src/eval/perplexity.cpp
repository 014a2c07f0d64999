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
  double nll_increase = 0;
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
    const double reference_nll =
        reference_total - static_cast<double>(reference[static_cast<std::size_t>(token)]);
    core::require(std::isfinite(reference_nll), ErrorKind::kFailed,
                  "the reference computed NaN or infinite logits; its weights may be damaged");
    prediction.nll_increase = prediction.nll - reference_nll;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double log_p = static_cast<double>(reference[i]) - reference_total;
      const double log_q = static_cast<double>(logits[i]) - total;
      const double p = std::exp(log_p);
      prediction.kl += p > 0 ? p * (log_p - log_q) : 0;  // the limit, also where log_p is -infinity
    }
    prediction.same_top = arg_max(reference) == arg_max(logits);
    return prediction;
  }

  engine::Runner& runner_;
  engine::Runner* reference_;
  std::vector<float> reference_logits_;  // [window, vocabulary]
  std::size_t vocabulary_ = 0;
};

// What all predictions added, a float each.
class Tally {
 public:
  explicit Tally(std::size_t window) : window_(window) {}

  void add(const Prediction& prediction) {
    nll_.push_back(static_cast<float>(prediction.nll));
    nll_sum_ += prediction.nll;
    nll_increase_.push_back(static_cast<float>(prediction.nll_increase));
    kl_.push_back(static_cast<float>(prediction.kl));
    same_top_ += prediction.same_top ? 1 : 0;
  }

  std::int64_t predictions() const { return static_cast<std::int64_t>(nll_.size()); }
  Mean nll() const {
    Mean mean = mean_of(nll_, window_);
    mean.value = running_nll();
    return mean;
  }
  double running_nll() const { return nll_sum_ / static_cast<double>(predictions()); }

  Divergence divergence() {
    Divergence divergence;
    divergence.kl = mean_of(kl_, window_);
    std::sort(kl_.begin(), kl_.end());
    divergence.kl_median = quantile(kl_, 0.5);
    divergence.kl_median_interval = quantile_interval(kl_, 0.5);
    divergence.kl_p999 = quantile(kl_, 0.999);
    divergence.kl_p999_interval = quantile_interval(kl_, 0.999);
    divergence.top1_agreement = static_cast<double>(same_top_) / static_cast<double>(predictions());
    divergence.top1_standard_error = share_standard_error(divergence.top1_agreement, predictions());
    divergence.nll_increase = mean_of(nll_increase_, window_);
    return divergence;
  }

 private:
  std::size_t window_;  // predictions of a window
  std::vector<float> nll_;
  double nll_sum_ = 0;
  std::vector<float> nll_increase_;
  std::vector<float> kl_;
  std::int64_t same_top_ = 0;
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
  Tally tally(static_cast<std::size_t>(options.seq_len - 1));
  progress.begin("perplexity", windows);
  for (std::int64_t i = 0; i < windows; ++i) {
    const auto window = tokens.subspan(static_cast<std::size_t>(i * options.seq_len),
                                       static_cast<std::size_t>(options.seq_len));
    for (const Prediction& prediction : scorer.score(window)) {
      tally.add(prediction);
    }
    progress.update(i + 1, fmt::format("{:.4f}", std::exp(tally.running_nll())));
  }
  progress.end();
  result.predictions = tally.predictions();
  result.nll = tally.nll();
  result.perplexity = std::exp(result.nll.value);
  if (reference != nullptr) {
    result.divergence = tally.divergence();
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace nibble::eval
