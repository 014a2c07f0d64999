#include "ops/cuda/linear/linear_kernels.h"
#include "ops/cuda/packed/unit_rows.h"
#include "ops/cuda/schedules/schedule_fields.h"

namespace nibble::ops::cuda {
namespace {

std::optional<InputForm> input_form(const LayerProblem& problem) {
  return problem.linear.scheme.activation.is_float()
             ? medium_batch_input(problem.plan.shape.format, problem.linear.m)
             : InputForm::kByteTiles;
}

Refusal refusal(const LayerProblem& problem) {
  const LinearProblem& linear = problem.linear;
  const LayerPlan& plan = problem.plan;
  if (const Refusal refused = layout_refusal(linear.scheme)) {
    return refused;
  }
  if (!plan.device.medium_batch) {
    return Reason("the device lacks the warpgroup products of sm_90a");
  }
  if (!medium_batch_knows(plan.shape.format)) {
    return Reason("it has no kernel for such codes and groups");
  }
  if (const Refusal refused = plan.shape.medium_refusal(linear.m)) {
    return refused;
  }
  if (const Refusal refused = epilogue_refusal(linear)) {
    return refused;
  }
  if (!linear.epilogue.gate) {
    return std::nullopt;
  }
  if (!is_half(*input_form(problem))) {
    return Reason("only with float16 inputs it joins gates");
  }
  if (!medium_batch_gates(plan.shape.format, plan.medium_schedule(linear.m), linear.m)) {
    return Reason("with this schedule no thread has both rows of a pair");
  }
  return std::nullopt;
}

std::string schedule(const LayerProblem& problem) {
  return with_fields("", problem.plan.medium_schedule(problem.linear.m));
}

void run(const LayerProblem& problem, const LayerWeights& weights, const LinearInput& x,
         const GemmOutput& output, cudaStream_t stream) {
  const LayerPlan& plan = problem.plan;
  MediumBatchProblem batch;
  batch.weight = weights.segments.front().view();
  batch.x = {x.target.values, x.target.sums,   plan.shape.digits(),
             x.target.codes,  x.target.scales, x.target.group == 0};
  batch.m = x.m;
  batch.output = output;
  medium_batch(batch, plan.medium_schedule(x.m), stream);
}

}  // namespace

LinearKernel medium_batch_kernel() {
  return {"medium-batch", refusal, input_form, nullptr, schedule, run};
}

}  // namespace nibble::ops::cuda
