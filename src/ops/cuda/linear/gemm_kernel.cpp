#include "ops/cuda/linear/linear_kernels.h"
#include "ops/cuda/schedules/schedule_fields.h"

namespace nibble::ops::cuda {
namespace {

Refusal refusal(const LayerProblem& problem) {
  const LinearProblem& linear = problem.linear;
  if (formats::is_dense(linear.scheme)) {
    return Reason("weights are dense");
  }
  if (const Refusal refused = problem.plan.shape.gemm_refusal()) {
    return refused;
  }
  if (problem.plan.shape.inputs == GemmInputs::kE4m3 && !problem.plan.device.medium_batch) {
    return Reason(
        "E4M3 activations need the warpgroup products of sm_90a; with activations in float16 "
        "(recipe "
        "fp8) every device computes E4M3 weights");
  }
  return linear.epilogue.gate ? gate_refusal(linear) : std::nullopt;
}

std::optional<InputForm> input_form(const LayerProblem& problem) {
  switch (problem.plan.shape.inputs) {
    case GemmInputs::kHalf:
      return InputForm::kFloat16Tiles;
    case GemmInputs::kE4m3:
      return InputForm::kE4m3;
    default:
      return InputForm::kInt8;
  }
}

GemmPlan plan_of(const LayerPlan& plan, const GemmWeights& weights, GemmInputs inputs,
                 std::int64_t m) {
  const ManyTokens* choice = plan.measured_choice(m);
  return choice != nullptr ? *choice->plan : plan_gemm(weights, inputs, static_cast<int>(m));
}

std::string schedule(const LayerProblem& problem) {
  const LinearShape& shape = problem.plan.shape;
  return to_string(plan_of(problem.plan, weights_of(shape), shape.inputs, problem.linear.m));
}

void run(const LayerProblem& problem, const LayerWeights& layer, const LinearInput& x,
         const GemmOutput& output, cudaStream_t stream) {
  const bool has_tail = layer.segments.size() > 1;
  const UnitsView& view = layer.segments.front().view();
  const GemmWeights weights{view, problem.plan.shape.row_scale};
  const auto tokens = static_cast<int>(x.m);
  const std::int64_t padded = padded_columns(view.k);
  if (x.target.form == InputForm::kFloat16Tiles) {
    const HalfInputs inputs{x.target.values, tokens, 2 * padded};
    return gemm_half(plan_of(problem.plan, weights, GemmInputs::kHalf, tokens), weights, inputs,
                     output, stream);
  }
  if (x.target.form == InputForm::kE4m3) {
    const Int8Inputs inputs{x.target.codes, tokens, padded, x.target.scales};
    return gemm_e4m3(plan_of(problem.plan, weights, GemmInputs::kE4m3, tokens), weights, inputs,
                     output, stream);
  }
  const bool by_group = x.target.group != 0;
  const std::int64_t row_bytes = padded + (has_tail ? kUnitInputs : 0);
  const auto groups = static_cast<int>(row_bytes / kUnitInputs);
  const Int8Inputs inputs{x.target.codes,        tokens,          row_bytes, x.target.scales,
                          by_group ? groups : 1, by_group ? 1 : 0};
  const GemmWeights tail{has_tail ? layer.segments.back().view() : UnitsView(), true};
  const GemmInputs kind = by_group ? GemmInputs::kInt8ScaledByGroup : GemmInputs::kInt8;
  gemm_int8(plan_of(problem.plan, weights, kind, tokens), weights, has_tail ? &tail : nullptr,
            inputs, output, stream);
}

}  // namespace

LinearKernel gemm_kernel() {
  return {"gemm", refusal, input_form, nullptr, schedule, run};
}

}  // namespace nibble::ops::cuda
