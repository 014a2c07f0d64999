#include "ops/cuda/linear/half_launches.h"
#include "ops/cuda/two_of_four/kept_packer.h"
#include "ops/cuda/two_of_four/kept_products.h"

// The kernel of weights of which two of each four are stored.
namespace nibble::ops::cuda {
namespace {

Refusal refusal(const LayerProblem& problem) {
  if (const Refusal refused = kept_units_refusal(problem.linear.scheme)) {
    return refused;
  }
  return float_result_refusal(problem.linear);
}

std::optional<InputForm> input_form(const LayerProblem&) {
  return InputForm::kFloat16;
}

std::string schedule(const LayerProblem&) {
  return fmt::format("a thread block for each 16 rows, up to {} tokens in a launch",
                     kMostKeptTokens);
}

void run(const LayerProblem& problem, const LayerWeights& weights, const LinearInput& x,
         const GemmOutput& output, cudaStream_t stream) {
  for_each_launch(problem.linear, x, output, kMostKeptTokens, [&](const HalfProduct& product) {
    kept_products({product, &weights.kept->view()}, stream);
  });
}

}  // namespace

LinearKernel two_of_four_kernel() {
  return {"two-of-four", refusal, input_form, nullptr, schedule, run};
}

}  // namespace nibble::ops::cuda
