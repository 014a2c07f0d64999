#include "ops/cuda/linear/linear_kernels.h"
#include "ops/cuda/linear/planned_kernel.h"
#include "ops/cuda/packed/unit_rows.h"

namespace nibble::ops::cuda {
namespace {

Refusal shape_refusal(const LinearShape& shape) {
  const UnitFormat& format = shape.format;
  if (!gemm_knows(format.codes)) {
    return Reason("it multiplies integers and books");
  }
  if (format.scales != ScaleKind::kF16) {
    return Reason("scales are beyond the range of float16");
  }
  if (shape.tail > kUnitInputs) {
    return Reason("a tail of {} inputs; at most {} fit its last segment", shape.tail, kUnitInputs);
  }
  if (shape.inputs == GemmInputs::kHalf) {
    return std::nullopt;
  }
  const bool by_group = shape.inputs == GemmInputs::kInt8ScaledByGroup;
  if (format.codes == CodeKind::kInt8WithZeros || format.has_shifts()) {
    return Reason("minima and 8-bit codes with zeros meet no rounded activations in it");
  }
  if (format.codes == CodeKind::kBook && !by_group) {
    return Reason("books meet rounded activations with a scale for each {} inputs", kUnitInputs);
  }
  if (format.groups != 1) {
    return Reason("{} inputs share a scale; with rounded activations it takes multiples of {}",
                  kUnitInputs / format.groups, kUnitInputs);
  }
  if (by_group && format.bits() != 4) {
    return Reason("8-bit weights, and activations with a scale for each {} inputs", kUnitInputs);
  }
  return std::nullopt;
}

std::vector<GemmPlan> plans(const LinearShape& shape) {
  return gemm_plans(weights_of(shape), shape.inputs);
}

std::int64_t fewest_tokens(const LinearShape&) {
  return 1;
}

InputForm form_of(const LinearShape& shape) {
  return shape.inputs == GemmInputs::kHalf ? InputForm::kFloat16Tiles : InputForm::kByteTiles;
}

void run_plan(const LinearShape& shape, const GemmPlan& plan, const UnitWeights& units,
              const InputTarget& x, std::int64_t m, const GemmOutput& output, cudaStream_t stream) {
  const GemmWeights weights{units.head, shape.row_scale};
  const auto tokens = static_cast<int>(m);
  const std::int64_t padded = padded_columns(units.head.k);
  if (shape.inputs == GemmInputs::kHalf) {
    return gemm_half(plan, weights, {x.values, tokens, 2 * padded}, output, stream);
  }
  const bool has_tail = units.tail != nullptr;
  const bool by_group = shape.inputs == GemmInputs::kInt8ScaledByGroup;
  const std::int64_t row_bytes = padded + (has_tail ? kUnitInputs : 0);
  const auto groups = static_cast<int>(row_bytes / kUnitInputs);
  const Int8Inputs inputs{x.codes,         tokens, row_bytes, x.scales, by_group ? groups : 1,
                          by_group ? 1 : 0};
  const GemmWeights tail{has_tail ? *units.tail : UnitsView(), true};
  gemm_int8(plan, weights, has_tail ? &tail : nullptr, inputs, output, stream);
}

constexpr PlannedProduct kProduct = {shape_refusal, plans, fewest_tokens, form_of, run_plan};

Refusal refusal(const LayerProblem& problem) {
  const LinearProblem& linear = problem.linear;
  if (const Refusal refused = layout_refusal(linear.scheme)) {
    return refused;
  }
  if (const Refusal refused = shape_refusal(problem.plan.shape)) {
    return refused;
  }
  return epilogue_refusal(linear, true);
}

}  // namespace

LinearKernel gemm_kernel() {
  return planned_kernel<kProduct>("gemm", refusal);
}

}  // namespace nibble::ops::cuda
