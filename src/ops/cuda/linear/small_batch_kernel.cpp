#include <algorithm>

#include "ops/cuda/linear/linear_kernels.h"
#include "ops/cuda/packed/unit_rows.h"
#include "ops/cuda/schedules/schedule_fields.h"

namespace nibble::ops::cuda {
namespace {

// Steps of so many tokens have the bits of one of them alone, whatever a launch takes.
constexpr std::int64_t kExactTokens = 8;

// More tokens than a launch takes are served in several, where that was measured to be faster.
bool takes_launches(const LayerPlan& plan, std::int64_t m) {
  const ManyTokens* choice = plan.measured_choice(m);
  return choice != nullptr && !choice->plan;
}

Refusal refusal(const LayerProblem& problem) {
  const LinearProblem& linear = problem.linear;
  const LayerPlan& plan = problem.plan;
  if (const Refusal refused = layout_refusal(linear.scheme)) {
    return refused;
  }
  if (plan.most_few == 0) {
    return Reason("it multiplies integers and books");
  }
  const std::int64_t few = std::max(plan.most_few, kExactTokens);
  if (linear.m > few && plan.is_planned && !takes_launches(plan, linear.m)) {
    return Reason("{} tokens; up to {} come here, and gemm takes all", linear.m, few);
  }
  if (linear.epilogue.gate) {
    return Reason("it joins no gates");
  }
  if (linear.epilogue.half && linear.scheme.inputs.tail > 0) {
    return Reason("the product of the tail is added to the product");
  }
  return epilogue_refusal(linear);
}

std::optional<InputForm> input_form(const LayerProblem&) {
  return InputForm::kInt8Lanes;
}

bool reads_rows(const LayerProblem& problem, const RowReading& reading) {
  return problem.linear.scheme.activation.is_float() &&
         problem.linear.m <= max_float_rows(weights_of(problem.plan.shape).units, reading.norm);
}

std::string schedule(const LayerProblem& problem) {
  const std::int64_t most = problem.plan.most_few;
  const std::int64_t launches = (problem.linear.m + most - 1) / most;
  return with_fields(launches > 1 ? std::to_string(launches) + " launches" : "", problem.plan.few);
}

void run_segment(const UnitSegment& segment, const FloatRows& rows, const InputTarget& x,
                 std::int64_t m, const GemmOutput& output, cudaStream_t stream) {
  const UnitsView& view = segment.view();
  const std::int64_t most = segment.plan().most_few;
  const int digits = rows.x != nullptr ? 2 : x.digits();
  const std::int64_t padded = padded_columns(view.k);
  const std::int64_t scales = x.group == 0 ? 1 : padded / x.group;
  for (std::int64_t row = 0; row < m; row += most) {
    SmallBatchProblem batch;
    batch.weight = view;
    batch.rows = rows;
    batch.x = {digits, x.codes + row * digits * padded, x.scales + row * scales, x.group == 0};
    batch.m = std::min(most, m - row);
    batch.y = output.y == nullptr ? nullptr : output.y + row * output.stride;
    batch.ldy = output.stride;
    batch.half = output.half.from(row);
    batch.bias = output.bias;
    batch.add = output.adds;
    small_batch(batch, segment.plan().few, stream);
  }
}

void run(const LayerProblem&, const LayerWeights& weights, const LinearInput& x,
         const GemmOutput& output, cudaStream_t stream) {
  run_segment(weights.segments.front(), x.rows, x.target, x.m, output, stream);
  for (const UnitSegment& tail : weights.segments.subspan(1)) {
    run_segment(tail, {}, x.tail, x.m, {.y = output.y, .stride = output.stride, .adds = true},
                stream);
  }
}

}  // namespace

LinearKernel small_batch_kernel() {
  return {"small-batch", refusal, input_form, reads_rows, schedule, run};
}

}  // namespace nibble::ops::cuda
