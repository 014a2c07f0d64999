#pragma once

#include <optional>
#include <string>
#include <string_view>

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

/// The entry of the table for a product.
template <const PlannedProduct& kProduct>
LinearKernel planned_kernel(std::string_view name, Refusal (*refusal)(const LayerProblem&)) {
  return {name,
          refusal,
          [](const LayerProblem& problem) -> std::optional<InputForm> {
            return kProduct.input_form(problem.plan.shape);
          },
          nullptr,
          plan_words,
          [](const LayerProblem& problem, const LayerWeights& weights, const LinearInput& x,
             const GemmOutput& output,
             cudaStream_t stream) { run_planned(kProduct, problem, weights, x, output, stream); },
          &kProduct};
}

}  // namespace nibble::ops::cuda
