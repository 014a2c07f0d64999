#include "engine/pooling.h"

#include <algorithm>
#include <cmath>

namespace nibble::engine {
namespace {

std::vector<float> mean_of(const EncoderRows& states) {
  std::vector<double> sums(static_cast<std::size_t>(states.columns));
  for (std::int64_t i = 0; i < states.rows; ++i) {
    const auto row = states.row(i);
    std::transform(sums.begin(), sums.end(), row.begin(), sums.begin(),
                   [](double sum, float value) { return sum + static_cast<double>(value); });
  }
  std::vector<float> mean(sums.size());
  std::transform(sums.begin(), sums.end(), mean.begin(), [&](double sum) {
    return static_cast<float>(sum / static_cast<double>(states.rows));
  });
  return mean;
}

std::vector<float> maximum_of(const EncoderRows& states) {
  std::vector<float> most(states.row(0).begin(), states.row(0).end());
  for (std::int64_t i = 1; i < states.rows; ++i) {
    std::transform(most.begin(), most.end(), states.row(i).begin(), most.begin(),
                   [](float a, float b) { return std::max(a, b); });
  }
  return most;
}

std::vector<float> combined(models::PoolingMode mode, const EncoderRows& states) {
  switch (mode) {
    case models::PoolingMode::kFirst:
      return {states.row(0).begin(), states.row(0).end()};
    case models::PoolingMode::kMean:
      return mean_of(states);
    case models::PoolingMode::kMax:
      return maximum_of(states);
  }
  return {};
}

}  // namespace

void normalize(std::span<float> values) {
  double squares = 0;
  for (const float value : values) {
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const double length = std::max(std::sqrt(squares), 1e-12);  // as sentence-transformers
  for (float& value : values) {
    value = static_cast<float>(static_cast<double>(value) / length);
  }
}

std::vector<float> pooled(const models::Pooling& pooling, const EncoderRows& states) {
  std::vector<float> embedding = combined(pooling.mode, states);
  if (pooling.normalize) {
    normalize(embedding);
  }
  return embedding;
}

}  // namespace nibble::engine
