#include "eval/metrics/classification.h"

#include <cmath>
#include <map>

#include "core/error.h"

namespace nibble::eval {
namespace {

using Classes = std::span<const std::int32_t>;

void require_pairs(Classes predicted, Classes gold) {
  core::require(
      !gold.empty() && predicted.size() == gold.size(), core::ErrorKind::kUsage,
      "a measure needs as many predictions as true values, and at least one; got {} and {}",
      predicted.size(), gold.size());
}

double count_right(Classes predicted, Classes gold) {
  double right = 0;
  for (std::size_t i = 0; i < gold.size(); ++i) {
    right += predicted[i] == gold[i] ? 1 : 0;
  }
  return right;
}

}  // namespace

double accuracy(Classes predicted, Classes gold) {
  require_pairs(predicted, gold);
  return count_right(predicted, gold) / static_cast<double>(gold.size());
}

double f1(Classes predicted, Classes gold, std::int32_t positive) {
  require_pairs(predicted, gold);
  double hits = 0;
  double named = 0;  // 2 TP + FP + FN
  for (std::size_t i = 0; i < gold.size(); ++i) {
    const int both = (predicted[i] == positive ? 1 : 0) + (gold[i] == positive ? 1 : 0);
    hits += both == 2 ? 1 : 0;
    named += both;
  }
  return named == 0 ? 0 : 2 * hits / named;
}

double matthews_correlation(Classes predicted, Classes gold) {
  require_pairs(predicted, gold);
  struct Counts {
    double predicted = 0;
    double gold = 0;
  };
  std::map<std::int32_t, Counts> classes;
  for (std::size_t i = 0; i < gold.size(); ++i) {
    classes[predicted[i]].predicted += 1;
    classes[gold[i]].gold += 1;
  }
  const auto n = static_cast<double>(gold.size());
  double covariance = count_right(predicted, gold) * n;
  double predicted_variance = n * n;
  double gold_variance = n * n;
  for (const auto& [id, counts] : classes) {
    covariance -= counts.predicted * counts.gold;
    predicted_variance -= counts.predicted * counts.predicted;
    gold_variance -= counts.gold * counts.gold;
  }
  const double scale = predicted_variance * gold_variance;
  return scale == 0 ? 0 : covariance / std::sqrt(scale);
}

}  // namespace nibble::eval
