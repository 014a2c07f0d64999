#include "ops/cuda/linear/planned_kernel.h"

#include "ops/cuda/schedules/schedule_fields.h"

namespace nibble::ops::cuda {

GemmPlan plan_of(const LayerProblem& problem) {
  const LayerPlan& layer = problem.plan;
  const ManyTokens* choice = layer.measured_choice(problem.linear.m);
  return choice != nullptr ? *choice->plan
                           : plan_gemm(weights_of(layer.shape), layer.shape.inputs,
                                       static_cast<int>(problem.linear.m));
}

std::string plan_words(const LayerProblem& problem) {
  return to_string(plan_of(problem));
}

void run_planned(const PlannedProduct& product, const LayerProblem& problem,
                 const LayerWeights& weights, const LinearInput& x, const GemmOutput& output,
                 cudaStream_t stream) {
  const auto& segments = weights.segments;
  const UnitWeights units{segments.front().view(),
                          segments.size() > 1 ? &segments.back().view() : nullptr};
  product.run(problem.plan.shape, plan_of(problem), units, x.target, x.m, output, stream);
}

}  // namespace nibble::ops::cuda
