#include "ops/cuda/fp8/fp8_kernel.h"

#include "ops/cuda/fp8/fp8_few_tokens.h"
#include "ops/cuda/fp8/fp8_gemm.h"
#include "ops/cuda/linear/linear_kernels.h"
#include "ops/cuda/linear/planned_kernel.h"

namespace nibble::ops::cuda {
namespace {

constexpr const char* kCode = "fp8";  // LinearShape::code

}  // namespace

Refusal fp8_refusal(const LinearShape& shape) {
  if (shape.format.codes != CodeKind::kBytes || shape.code != kCode || !shape.row_scale) {
    return Reason("it multiplies E4M3 numbers with a scale for each row");
  }
  return std::nullopt;
}

namespace {

// Before sm_89 warps have no products of E4M3, and none are used there.
std::vector<GemmPlan> plans(const LinearShape& shape) {
  std::vector<GemmPlan> all = gemm_plans(weights_of(shape), shape.inputs);
  if (shape.inputs == GemmInputs::kBytes) {
    std::erase_if(all, [](const GemmPlan& plan) { return !plan.wgmma; });
  }
  return all;
}

// Fewer are those of fp8_few_kernel().
std::int64_t fewest(const LinearShape& shape) {
  return shape.inputs == GemmInputs::kHalf && medium_batch_runs() ? kFp8FewTokens + 1 : 1;
}

InputForm form_of(const LinearShape& shape) {
  return shape.inputs == GemmInputs::kBytes ? InputForm::kByteTiles : InputForm::kFloat16Tiles;
}

void run_plan(const LinearShape& shape, const GemmPlan& plan, const UnitWeights& units,
              const InputTarget& x, std::int64_t m, const GemmOutput& output, cudaStream_t stream) {
  const GemmWeights weights{units.head, shape.row_scale};
  const auto tokens = static_cast<int>(m);
  const std::int64_t padded = padded_columns(units.head.k);
  if (shape.inputs == GemmInputs::kBytes) {
    const Int8Inputs inputs{x.codes, tokens, padded, x.scales};
    return fp8_gemm_e4m3(plan, weights, inputs, output, stream);
  }
  fp8_gemm_half(plan, weights, {x.values, tokens, 2 * padded}, output, stream);
}

constexpr PlannedProduct kProduct = {fp8_refusal, plans, fewest, form_of, run_plan};

Refusal refusal(const LayerProblem& problem) {
  const LinearProblem& linear = problem.linear;
  if (const Refusal refused = fp8_refusal(problem.plan.shape)) {
    return refused;
  }
  if (!linear.scheme.activation.is_float() && !problem.plan.device.medium_batch) {
    return Reason(
        "E4M3 activations need the warpgroup products of sm_90a; with activations in float16 "
        "(recipe fp8) every device computes E4M3 weights");
  }
  return epilogue_refusal(linear);
}

}  // namespace

LinearKernel fp8_gemm_kernel() {
  return planned_kernel<kProduct>("fp8-gemm", refusal);
}

}  // namespace nibble::ops::cuda
