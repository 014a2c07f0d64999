#pragma once

#include <vector>

#include "compress/block_work.h"
#include "core/threads.h"

namespace nibble::compress {

/// The scales of a set's inputs, source.scales values, that leave the least error in the outputs
/// when the scaled weights are rounded to nearest: AWQ section 3.2, equation 4, s = x^r over r, and
/// the variant that also divides by the weights' magnitude. The error is tr(E H E^T) with
/// E = W - Q(W diag(s)) diag(s)^-1 and the Hessian H of the inputs, which is the mean squared error
/// of the outputs on the calibration text. All ones when nothing is better. Learned books are not
/// known yet: the search rounds to NF4 in their place.
std::vector<float> search_scales(const SetWork& set, core::ThreadPool& pool);

}  // namespace nibble::compress
