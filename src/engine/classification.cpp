#include "engine/classification.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace nibble::engine {

const models::Classifier& classifier_of(const models::Model& model) {
  core::require(model.network.classifier.has_value(), core::ErrorKind::kUsage,
                "the model has no head that labels texts or tokens");
  return *model.network.classifier;
}

std::size_t best_label(std::span<const float> logits) {
  return static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::vector<double> probabilities(models::Problem problem, std::span<const float> logits) {
  std::vector<double> values(logits.begin(), logits.end());
  if (problem == models::Problem::kRegression || problem == models::Problem::kMultiLabel) {
    std::transform(values.begin(), values.end(), values.begin(),
                   [](double x) { return 1 / (1 + std::exp(-x)); });
    return values;
  }
  const double largest = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (double& value : values) {
    value = std::exp(value - largest);
    sum += value;
  }
  for (double& value : values) {
    value /= sum;
  }
  return values;
}

}  // namespace nibble::engine
