#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.h"

namespace nibble::ops::cuda {

/// A row-major weight [n, k] and inputs [m, k] as the numbers that kernels multiply: rounded to the
/// weight's type already.
struct DenseReferenceProblem {
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t m = 0;
  std::vector<float> weight;
  std::vector<float> x;
  std::vector<float> bias;    // [n] or empty
  std::vector<float> before;  // [m, n], what results are added to, or empty
};

/// y [m, n], summed in float64, and by how much float32 sums may differ: products of 16-bit numbers
/// are exact, and each addition errs by 2^-23 of a partial sum at the most. Partial sums stay below
/// the magnitudes of all terms together, and what they err by goes both ways: some eight such
/// errors of that whole are more than any order of additions comes to.
struct DenseReference {
  std::vector<double> y;
  std::vector<double> bounds;
};
DenseReference reference_dense(const DenseReferenceProblem& problem);

/// As operators round what they write for a layer whose weights have this type: to nearest, float16
/// cut to +-65504.
std::vector<float> rounded_to(core::DType type, std::span<const float> x);

}  // namespace nibble::ops::cuda
