#pragma once

#include <cstdint>
#include <span>

namespace nibble::eval {

/// Measures of predicted against true classes, as scikit-learn defines them. Both lists have the
/// same length, at least 1; throws kUsage otherwise.

/// Share of predictions that are right.
double accuracy(std::span<const std::int32_t> predicted, std::span<const std::int32_t> gold);

/// F1 of the class `positive`: 2 TP / (2 TP + FP + FN); 0 when the class is neither predicted nor
/// true (sklearn.metrics.f1_score with zero_division = 0).
double f1(std::span<const std::int32_t> predicted, std::span<const std::int32_t> gold,
          std::int32_t positive = 1);

/// Matthews correlation for any number of classes (Gorodkin 2004, R_K); 0 when one side names a
/// single class (sklearn.metrics.matthews_corrcoef).
double matthews_correlation(std::span<const std::int32_t> predicted,
                            std::span<const std::int32_t> gold);

}  // namespace nibble::eval
