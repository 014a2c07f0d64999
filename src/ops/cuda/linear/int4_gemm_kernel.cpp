#include "ops/cuda/elementwise/int4_tiles.h"
#include "ops/cuda/gemm/int4/gemm_int4.h"
#include "ops/cuda/linear/linear_kernels.h"
#include "ops/cuda/packed/unit_rows.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kBits = 4;

Refusal weights_refusal(const LinearShape& shape) {
  const UnitFormat& format = shape.format;
  if (format.codes != CodeKind::kInt4 && format.codes != CodeKind::kInt4WithZeros) {
    return Reason("it multiplies integers of {} bits", kBits);
  }
  if (format.groups != 1) {
    return Reason("{} inputs share a scale; it takes multiples of {}", kUnitInputs / format.groups,
                  kUnitInputs);
  }
  if (shape.tail > 0) {
    return Reason("a tail of {} inputs has 8 bits", shape.tail);
  }
  return std::nullopt;
}

Refusal refusal(const LayerProblem& problem) {
  const LinearProblem& linear = problem.linear;
  const formats::Activation& activation = linear.scheme.activation;
  if (const Refusal refused = layout_refusal(linear.scheme)) {
    return refused;
  }
  if (const Refusal refused = weights_refusal(problem.plan.shape)) {
    return refused;
  }
  if (activation.is_float() || activation.type != &formats::kIntegerCodes ||
      activation.bits > kBits) {
    return Reason("activations have more than {} bits", kBits);
  }
  if (!problem.plan.device.int4_products) {
    return Reason(
        "only devices of compute capability 8.0 to 8.9 have products of 4-bit integers; others "
        "take them as INT8");
  }
  return epilogue_refusal(linear);
}

std::optional<InputForm> input_form(const LayerProblem&) {
  return InputForm::kInt4Tiles;
}

std::string schedule(const LayerProblem&) {
  return "tiles of 128 x 128";
}

void run(const LayerProblem& problem, const LayerWeights& weights, const LinearInput& x,
         const GemmOutput& output, cudaStream_t stream) {
  const UnitsView& units = weights.segments.front().view();
  const std::int64_t padded = padded_columns(units.k);
  const bool by_group = problem.plan.shape.inputs == GemmInputs::kInt8ScaledByGroup;
  const Int4Inputs inputs{.codes = x.target.codes,
                          .tokens = static_cast<int>(x.m),
                          .row_bytes = padded / kInt4PerByte,
                          .scales = x.target.scales,
                          .zeros = x.target.zeros,
                          .token_stride = by_group ? static_cast<int>(padded / kUnitInputs) : 1,
                          .group_stride = by_group ? 1 : 0};
  gemm_int4({units, problem.plan.shape.row_scale}, inputs, output, stream);
}

}  // namespace

LinearKernel int4_gemm_kernel() {
  return {kInt4Gemm, refusal, input_form, nullptr, schedule, run};
}

}  // namespace nibble::ops::cuda
