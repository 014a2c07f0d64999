#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "core/error.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::engine {
namespace {

using core::ErrorKind;

// Logits of a run: few where many tokens are wanted, so that there are more runs than these.
std::int64_t run_of(std::int64_t logits, std::int64_t count) {
  constexpr std::int64_t kMost = 256;
  constexpr std::int64_t kLeast = 16;
  std::int64_t run = kMost;
  while (run > kLeast && logits / (4 * run) < count) {
    run /= 2;
  }
  return run;
}

// No more than all but `count` logits are smaller: as many runs have one that large.
// `maxima`: those of runs.
float least_of_most_probable(const std::vector<float>& maxima, std::int64_t count) {
  if (count == 0 || std::cmp_less_equal(maxima.size(), count)) {
    return -std::numeric_limits<float>::infinity();
  }
  std::vector<float> largest = maxima;
  const auto last = largest.begin() + (count - 1);
  std::nth_element(largest.begin(), last, largest.end(), std::greater<>());
  return *last;
}

bool is_within(float value, float low, float high) {  // false for NaN
  return value >= low && value <= high;
}

}  // namespace

void validate(const SamplingOptions& options, std::int64_t vocabulary) {
  core::require(is_within(options.temperature, 0, 100), ErrorKind::kUsage,
                "temperature is {}, must be 0 to 100", options.temperature);
  core::require(options.top_k >= 0, ErrorKind::kUsage, "top-k is {}, must be 0 (all) or more",
                options.top_k);
  core::require(options.top_p > 0 && options.top_p <= 1, ErrorKind::kUsage,
                "top-p is {}, must be in (0, 1]", options.top_p);
  core::require(options.min_p >= 0 && options.min_p < 1, ErrorKind::kUsage,
                "min-p is {}, must be in [0, 1)", options.min_p);
  core::require(options.repetition_penalty > 0 && options.repetition_penalty <= 100,
                ErrorKind::kUsage, "repetition penalty is {}, must be in (0, 100]",
                options.repetition_penalty);
  core::require(is_within(options.presence_penalty, -100, 100), ErrorKind::kUsage,
                "presence penalty is {}, must be -100 to 100", options.presence_penalty);
  core::require(is_within(options.frequency_penalty, -100, 100), ErrorKind::kUsage,
                "frequency penalty is {}, must be -100 to 100", options.frequency_penalty);
  for (const auto& [token, bias] : options.logit_bias) {
    core::require(token >= 0 && token < vocabulary, ErrorKind::kUsage,
                  "logit bias of token {}: the vocabulary has {} tokens", token, vocabulary);
    core::require(is_within(bias, -1000, 1000), ErrorKind::kUsage,
                  "logit bias of token {} is {}, must be -1000 to 1000", token, bias);
  }
}

bool has_nan(std::span<const float> logits) {
  float largest = 0.0f;
  const std::int64_t run = std::max<std::int64_t>(1, std::ssize(logits));
  return ops::cpu::vector_kernels().largest_of_runs(logits.data(), std::ssize(logits), run,
                                                    &largest);
}

void fail_with_nan() {
  core::fail(ErrorKind::kFailed, "the model computed NaN logits; its weights may be damaged");
}

bool rank_numbers(std::span<const float> logits, std::int64_t count,
                  std::vector<ops::RankedToken>& ranked) {
  ranked.clear();
  const std::int64_t run = run_of(std::ssize(logits), count);
  std::vector<float> maxima(static_cast<std::size_t>((std::ssize(logits) + run - 1) / run));
  if (ops::cpu::vector_kernels().largest_of_runs(logits.data(), std::ssize(logits), run,
                                                 maxima.data())) {
    return false;
  }
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const float least = least_of_most_probable(maxima, count);
  for (std::int64_t begin = 0; begin < std::ssize(logits); begin += run) {
    if (maxima[static_cast<std::size_t>(begin / run)] < least) {
      continue;
    }
    const std::int64_t end = std::min(begin + run, std::ssize(logits));
    for (std::int64_t i = begin; i < end; ++i) {
      const float logit = logits[static_cast<std::size_t>(i)];
      if (logit >= least && logit > kNever) {
        ranked.push_back({static_cast<std::int32_t>(i), logit});
      }
    }
  }
  const auto more_probable = [](const ops::RankedToken& a, const ops::RankedToken& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  };
  const auto all = static_cast<std::int64_t>(ranked.size());
  const std::int64_t kept = count == 0 ? all : std::min(count, all);
  std::partial_sort(ranked.begin(), ranked.begin() + kept, ranked.end(), more_probable);
  ranked.resize(static_cast<std::size_t>(kept));
  return true;
}

void rank(std::span<const float> logits, std::int64_t count,
          std::vector<ops::RankedToken>& ranked) {
  if (!rank_numbers(logits, count, ranked)) {
    fail_with_nan();
  }
}

Sampler::Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {}

std::int64_t Sampler::wanted() const {
  return options_.temperature == 0.0f ? 1 : options_.top_k;
}

std::int32_t Sampler::sample(RankedTokens ranked) {
  if (options_.temperature == 0.0f) {
    return ranked.front().id;
  }
  return ops::draw_from_ranked(ranked, draw(random_.uniform()), weights_).id;
}

std::optional<std::int32_t> Sampler::sample_row(std::span<const float> logits) {
  if (has_nan(logits)) {
    fail_with_nan();
  }
  const std::int32_t drawn = ops::draw_from_row(logits, draw(random_.uniform()), weights_,
                                                ops::cpu::vector_kernels().token_weights);
  if (logits[static_cast<std::size_t>(drawn)] == -std::numeric_limits<float>::infinity()) {
    return std::nullopt;
  }
  return drawn;
}

ops::TokenDraw Sampler::draw_after(std::int64_t before) const {
  if (options_.temperature == 0.0f) {
    return draw(0);
  }
  core::Random random = random_;
  double uniform = random.uniform();
  for (; before > 0; --before) {
    uniform = random.uniform();
  }
  return draw(uniform);
}

ops::TokenDraw Sampler::draw(double uniform) const {
  return {.uniform = uniform,
          .temperature = options_.temperature,
          .top_p = options_.top_p,
          .min_p = options_.min_p,
          .top_k = static_cast<std::int32_t>(
              std::min<std::int64_t>(options_.top_k, std::numeric_limits<std::int32_t>::max()))};
}

}  // namespace nibble::engine
