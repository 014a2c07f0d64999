#include "ops/cuda/fp8/fp8_few_tokens.h"
#include "ops/cuda/fp8/fp8_kernel.h"
#include "ops/cuda/linear/linear_kernels.h"
#include "ops/cuda/medium_batch/launch_batch.h"
#include "ops/cuda/schedules/schedule_fields.h"

namespace nibble::ops::cuda {
namespace {

Refusal half_refusal(const LayerProblem& problem) {
  const LinearProblem& linear = problem.linear;
  if (const Refusal refused = epilogue_refusal(linear)) {
    return refused;
  }
  if (linear.epilogue.gate &&
      !half_batch_gates(problem.plan.medium_schedule(linear.m), kFp8FewTokens)) {
    return Reason("with this schedule no thread has both rows of a pair");
  }
  return std::nullopt;
}

Refusal refusal(const LayerProblem& problem) {
  const LinearProblem& linear = problem.linear;
  if (const Refusal refused = fp8_refusal(problem.plan.shape)) {
    return refused;
  }
  if (!linear.scheme.activation.is_float()) {
    return Reason("it multiplies activations in float16");
  }
  if (!problem.plan.device.medium_batch) {
    return Reason("the device lacks the warpgroup products of sm_90a");
  }
  if (linear.m < 1 || linear.m > kFp8FewTokens) {
    return Reason("{} tokens; it takes 1 to {}", linear.m, kFp8FewTokens);
  }
  return half_refusal(problem);
}

std::optional<InputForm> input_form(const LayerProblem&) {
  return InputForm::kFloat16Tiles;
}

std::string schedule(const LayerProblem& problem) {
  return with_fields("", problem.plan.medium_schedule(problem.linear.m));
}

void run(const LayerProblem& problem, const LayerWeights& weights, const LinearInput& x,
         const GemmOutput& output, cudaStream_t stream) {
  MediumBatchProblem batch;
  batch.weight = weights.segments.front().view();
  batch.x.values = x.target.values;
  batch.m = x.m;
  batch.output = output;
  launch_medium_batch(medium_batch_e4m3, batch, problem.plan.medium_schedule(x.m), stream);
}

}  // namespace

LinearKernel fp8_few_kernel() {
  return {"fp8-few", refusal, input_form, nullptr, schedule, run};
}

}  // namespace nibble::ops::cuda
