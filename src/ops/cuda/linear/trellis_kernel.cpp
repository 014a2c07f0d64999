#include "ops/cuda/linear/half_launches.h"
#include "ops/cuda/linear/wide_product.h"
#include "ops/cuda/trellis/trellis_packer.h"
#include "ops/cuda/trellis/trellis_products.h"

// The kernels of trellis codes.
namespace nibble::ops::cuda {
namespace {

Refusal common_refusal(const LinearProblem& linear) {
  if (const Refusal refused = trellis_refusal(linear.scheme)) {
    return refused;
  }
  return float_result_refusal(linear);
}

Refusal few_refusal(const LayerProblem& problem) {
  const LinearProblem& linear = problem.linear;
  if (const Refusal refused = common_refusal(linear)) {
    return refused;
  }
  if (linear.m > kMostTrellisTokens && blas_lt_absence(problem).empty()) {
    return Reason("{} tokens; with more than {} trellis-many is faster", linear.m,
                  kMostTrellisTokens);
  }
  return std::nullopt;
}

Refusal many_refusal(const LayerProblem& problem) {
  const LinearProblem& linear = problem.linear;
  if (const Refusal refused = common_refusal(linear)) {
    return refused;
  }
  if (linear.m <= kMostTrellisTokens) {
    return Reason("{} tokens; trellis-few takes up to {}", linear.m, kMostTrellisTokens);
  }
  if (const std::string_view reason = blas_lt_absence(problem); !reason.empty()) {
    return Reason("cublaslt not found: {}", reason);
  }
  return std::nullopt;
}

std::optional<InputForm> input_form(const LayerProblem&) {
  return InputForm::kFloat16;
}

std::string few_schedule(const LayerProblem&) {
  return fmt::format("thread blocks take tiles of 16 rows in turns, up to {} tokens in a launch",
                     kMostTrellisTokens);
}

std::string many_schedule(const LayerProblem& problem) {
  const std::int64_t rows = rows_at_once(problem.linear.n, problem.linear.k);
  return fmt::format("{} rows at a time become float16, cuBLASLt multiplies them",
                     std::min(rows, problem.linear.n));
}

void run_few(const LayerProblem& problem, const LayerWeights& weights, const LinearInput& x,
             const GemmOutput& output, cudaStream_t stream) {
  for_each_launch(
      problem.linear, x, output, kMostTrellisTokens, [&](const HalfProduct& product, std::int64_t) {
        trellis_products({product, &weights.trellis->view(), problem.plan.device.multiprocessors},
                         stream);
      });
}

void run_many(const LayerProblem& problem, const LayerWeights& weights, const LinearInput& x,
              const GemmOutput& output, cudaStream_t stream) {
  require_unpaired(output, problem.linear.n);
  const TrellisView& view = weights.trellis->view();
  core::Fp16* const values = weights.trellis->wide_rows();
  multiply_wide({weights.products, view.n, view.k, values}, x.target.values, x.m, output, stream,
                [&](std::int64_t first, std::int64_t rows) {
                  widen_trellis(view, first, rows, problem.plan.device.multiprocessors, values,
                                stream);
                });
}

}  // namespace

LinearKernel few_trellis_kernel() {
  return {"trellis-few", few_refusal, input_form, nullptr, few_schedule, run_few};
}

LinearKernel many_trellis_kernel() {
  return {"trellis-many", many_refusal, input_form, nullptr, many_schedule, run_many};
}

}  // namespace nibble::ops::cuda
