#pragma once

#include <span>

namespace nibble::eval {

/// Correlations of two lists of the same length, at least 2; throws kUsage otherwise. NaN when one
/// list is constant, for then there is none (as scipy.stats.pearsonr and spearmanr give it).

double pearson_correlation(std::span<const double> x, std::span<const double> y);

/// Pearson's of the ranks; equal values share the mean of their ranks.
double spearman_correlation(std::span<const double> x, std::span<const double> y);

}  // namespace nibble::eval
