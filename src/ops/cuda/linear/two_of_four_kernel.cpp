#include "ops/cuda/linear/half_launches.h"
#include "ops/cuda/schedules/schedule_fields.h"
#include "ops/cuda/two_of_four/kept_gemm.h"
#include "ops/cuda/two_of_four/kept_packer.h"
#include "ops/cuda/two_of_four/kept_products.h"

// The kernels of weights of which two of each four are stored.
namespace nibble::ops::cuda {
namespace {

// With more, products of warpgroups are faster.
constexpr std::int64_t kFewKeptTokens = 8;

// Whether the device has the other kernel.
bool has_many(const LayerProblem& problem) {
  return problem.plan.device.medium_batch;
}

Refusal few_refusal(const LayerProblem& problem) {
  const LinearProblem& linear = problem.linear;
  if (const Refusal refused = kept_units_refusal(linear.scheme)) {
    return refused;
  }
  if (linear.m > kFewKeptTokens && has_many(problem)) {
    return Reason("{} tokens; with more than {} two-of-four-many is faster", linear.m,
                  kFewKeptTokens);
  }
  return float_result_refusal(linear);
}

Refusal many_refusal(const LayerProblem& problem) {
  const LinearProblem& linear = problem.linear;
  if (const Refusal refused = kept_units_refusal(linear.scheme)) {
    return refused;
  }
  if (!has_many(problem)) {
    return Reason("it needs products of warpgroups");
  }
  if (linear.m <= kFewKeptTokens) {
    return Reason("{} tokens; two-of-four-few takes up to {}", linear.m, kFewKeptTokens);
  }
  if (linear.epilogue.blocks) {
    return Reason("it sends nothing to another device");
  }
  return epilogue_refusal(linear, true);
}

bool is_rounded(const LayerProblem& problem) {
  return !problem.linear.scheme.activation.is_float();
}

std::optional<InputForm> input_form(const LayerProblem& problem) {
  return is_rounded(problem) ? InputForm::kByteTiles : InputForm::kFloat16;
}

std::string few_schedule(const LayerProblem&) {
  return fmt::format("a thread block for each 16 rows, up to {} tokens in a launch",
                     kMostKeptTokens);
}

GemmPlan plan_of(const LayerProblem& problem) {
  const LinearProblem& linear = problem.linear;
  return kept_gemm_plan(kept_form(linear.scheme), linear.n, static_cast<int>(linear.m));
}

std::string many_schedule(const LayerProblem& problem) {
  return to_string(plan_of(problem));
}

void run_few(const LayerProblem& problem, const LayerWeights& weights, const LinearInput& x,
             const GemmOutput& output, cudaStream_t stream) {
  const std::int64_t padded = padded_columns(problem.linear.k);
  for_each_launch(problem.linear, x, output, kMostKeptTokens,
                  [&](const HalfProduct& product, std::int64_t token) {
                    KeptProblem kept{product, &weights.kept->view()};
                    if (is_rounded(problem)) {
                      kept.codes = x.target.codes + token * padded;
                      kept.scales = x.target.scales + token;
                    }
                    kept_products(kept, stream);
                  });
}

void run_many(const LayerProblem& problem, const LayerWeights& weights, const LinearInput& x,
              const GemmOutput& output, cudaStream_t stream) {
  const GemmPlan plan = plan_of(problem);
  const KeptView& view = weights.kept->view();
  const auto tokens = static_cast<int>(x.m);
  const std::int64_t padded = padded_columns(problem.linear.k);
  if (is_rounded(problem)) {
    return kept_gemm(plan, view, Int8Inputs{x.target.codes, tokens, padded, x.target.scales},
                     output, stream);
  }
  kept_gemm(plan, view, HalfInputs{x.target.values, tokens, 2 * padded}, output, stream);
}

}  // namespace

LinearKernel few_kept_kernel() {
  return {"two-of-four-few", few_refusal, input_form, nullptr, few_schedule, run_few};
}

LinearKernel many_kept_kernel() {
  return {"two-of-four-many", many_refusal, input_form, nullptr, many_schedule, run_many};
}

}  // namespace nibble::ops::cuda
