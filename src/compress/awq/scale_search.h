#pragma once

#include <vector>

#include "compress/backend/backend.h"
#include "compress/block/block_work.h"
#include "core/threads.h"
#include "formats/scheme.h"

namespace nibble::compress {

/// The scales of a set's inputs, source.scales values, that leave the least error in the outputs
/// when the scaled weights are rounded to nearest: AWQ section 3.2, equation 4, s = x^r over r, and
/// the variant that also divides by the weights' magnitude. The error is tr(E H E^T) with
/// E = W - Q(W diag(s)) diag(s)^-1 and the Hessian H of the inputs, which is the mean squared error
/// of the outputs on the calibration text. All ones when nothing is better. Learned books are not
/// known yet: the search rounds to NF4 in their place.
std::vector<float> search_scales(const SetWork& set, const Backend& backend);

/// Output rows of a layer that the search looks at.
inline constexpr std::int64_t kSearchedRows = 512;
/// The layer's row that is the search's row i of `rows`.
constexpr std::int64_t searched_row(std::int64_t i, std::int64_t rows, std::int64_t n) {
  return i * n / rows;
}

/// For each candidate, [k] each, the sum over the set's layers of n / rows tr(E H E^T) on the rows
/// that are searched.
std::vector<double> scale_errors(const SetWork& set, std::span<const std::vector<float>> scales,
                                 core::ThreadPool& pool);
/// On the backend's GPU where that runs the searches for the set, else on its threads.
std::vector<double> scale_errors(const SetWork& set, std::span<const std::vector<float>> scales,
                                 const Backend& backend);

/// Whether GPUs run AWQ's searches for layers of the scheme; whether the backend has one that does
/// for all layers of the set.
bool awq_runs_on_gpu(const formats::Scheme& scheme);
bool awq_runs_on_gpu(const SetWork& set, const Backend& backend);

/// What the search rounds with in place of `scheme`.
formats::Scheme trial_scheme(formats::Scheme scheme);

}  // namespace nibble::compress
