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

void move_all(const AdamWStep& step, float* values, float* gradient, float* first, float* second,
              std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    move(step, values[i], gradient[i], first[i], second[i]);
  }
}

}  // namespace

AdamWStep step_of(const AdamWOptions& options, const Parameter& parameter, double learning_rate,
                  std::int64_t steps, double norm) {
  const double rate = learning_rate * static_cast<double>(parameter.rate);
  const auto power = static_cast<double>(steps);
  return {
      static_cast<float>(options.clip > 0 && norm > options.clip ? options.clip / norm : 1.0),
      static_cast<float>(options.beta1),
      static_cast<float>(options.beta2),
      static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(options.beta2, power))),
      static_cast<float>(options.epsilon),
      static_cast<float>(rate / (1.0 - std::pow(options.beta1, power))),
      static_cast<float>(parameter.decays ? rate * options.weight_decay : 0.0),
  };
}

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
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    Parameter& parameter = *parameters_[p];
    const AdamWStep step = step_of(options_, parameter, learning_rate, steps_, norm);
    pool_.parallel_for(
        std::ssize(parameter.values), kChunk, [&](std::int64_t begin, std::int64_t end) {
          move_all(step, parameter.values.data() + begin, parameter.gradient.data() + begin,
                   moments_[p].first.data() + begin, moments_[p].second.data() + begin,
                   end - begin);
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
