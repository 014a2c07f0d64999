#pragma once

#include <string>

#include "ops/cuda/linear/linear_kernel.h"
#include "ops/cuda/linear/planned_product.h"

/// What kernels with a PlannedProduct do alike.
namespace nibble::ops::cuda {

/// The plan that was measured for the problem's tokens, or is built in.
GemmPlan plan_of(const LayerProblem& problem);
/// Its words.
std::string plan_words(const LayerProblem& problem);

/// The layer by that plan, with the segments' weights.
void run_planned(const PlannedProduct& product, const LayerProblem& problem,
                 const LayerWeights& weights, const LinearInput& x, const GemmOutput& output,
                 cudaStream_t stream);

}  // namespace nibble::ops::cuda
