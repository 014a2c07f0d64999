#include "tune/adamw.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "core/error.h"

namespace nibble::tune {
namespace {

constexpr std::int64_t kChunk = 16384;  // values of one task

double sum_of_squares(const std::vector<float>& values, core::ThreadPool& pool) {
  const std::int64_t count = std::ssize(values);
  std::vector<double> sums(static_cast<std::size_t>((count + kChunk - 1) / kChunk));
  pool.parallel_for(std::ssize(sums), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      double sum = 0;
      for (std::int64_t i = chunk * kChunk; i < std::min(count, (chunk + 1) * kChunk); ++i) {
        const double value = values[static_cast<std::size_t>(i)];
        sum += value * value;
      }
      sums[static_cast<std::size_t>(chunk)] = sum;
    }
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// What a step does to each value.
struct Step {
  float share;  // of the gradient that clipping leaves
  float beta1;
  float beta2;
  float correction2;  // of the root of the second moment
  float epsilon;
  float rate;   // with the correction of the first moment
  float decay;  // share of the value that goes
};

void move(const Step& step, float* values, float* gradient, float* first, float* second,
          std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = gradient[i] * step.share;
    first[i] = step.beta1 * first[i] + (1.0f - step.beta1) * g;
    second[i] = step.beta2 * second[i] + (1.0f - step.beta2) * g * g;
    const float size = std::sqrt(second[i]) * step.correction2 + step.epsilon;
    values[i] = values[i] - step.decay * values[i] - step.rate * first[i] / size;
    gradient[i] = 0.0f;
  }
}

}  // namespace

AdamW::AdamW(const Parameters& parameters, const AdamWOptions& options, core::ThreadPool& pool)
    : parameters_(parameters), options_(options), pool_(pool) {
  for (const auto& parameter : parameters) {
    moments_.push_back({std::vector<float>(parameter->values.size()),
                        std::vector<float>(parameter->values.size())});
  }
}

double AdamW::step(double learning_rate) {
  double squares = 0;
  for (const auto& parameter : parameters_) {
    squares += sum_of_squares(parameter->gradient, pool_);
  }
  const double norm = std::sqrt(squares);
  ++steps_;
  const auto steps = static_cast<double>(steps_);
  const double clipped = options_.clip > 0 && norm > options_.clip ? options_.clip / norm : 1.0;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    Parameter& parameter = *parameters_[p];
    const double rate = learning_rate * static_cast<double>(parameter.rate);
    const Step step = {
        static_cast<float>(clipped),
        static_cast<float>(options_.beta1),
        static_cast<float>(options_.beta2),
        static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(options_.beta2, steps))),
        static_cast<float>(options_.epsilon),
        static_cast<float>(rate / (1.0 - std::pow(options_.beta1, steps))),
        static_cast<float>(parameter.decays ? rate * options_.weight_decay : 0.0),
    };
    pool_.parallel_for(
        std::ssize(parameter.values), kChunk, [&](std::int64_t begin, std::int64_t end) {
          move(step, parameter.values.data() + begin, parameter.gradient.data() + begin,
               moments_[p].first.data() + begin, moments_[p].second.data() + begin, end - begin);
        });
  }
  return norm;
}

void AdamW::restore(std::int64_t steps, std::vector<Moments> moments) {
  bool fits = moments.size() == parameters_.size();
  for (std::size_t p = 0; fits && p < moments.size(); ++p) {
    const std::size_t size = parameters_[p]->values.size();
    fits = moments[p].first.size() == size && moments[p].second.size() == size;
  }
  core::require(fits && steps >= 0, core::ErrorKind::kFailed,
                "moments of other parameters than these");
  steps_ = steps;
  moments_ = std::move(moments);
}

}  // namespace nibble::tune
