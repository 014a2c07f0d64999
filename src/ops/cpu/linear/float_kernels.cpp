#include "ops/cpu/dense/dense_linear.h"
#include "ops/cpu/linear/linear_kernels.h"

namespace nibble::ops::cpu {
namespace {

Refusal dense_refusal(const LayerProblem& problem) {
  if (!formats::is_dense(problem.linear.scheme)) {
    return Reason("weights are compressed");
  }
  return epilogue_refusal(problem.linear.epilogue);
}

Refusal decoded_refusal(const LayerProblem& problem) {
  const formats::Scheme& scheme = problem.linear.scheme;
  if (formats::is_dense(scheme)) {
    return Reason("weights are dense");
  }
  if (formats::has_codes(scheme) && problem.activations != ActivationPrecision::kFloat) {
    return Reason("activations are to be integers");
  }
  if (!scheme.activation.is_float() && problem.prepared) {
    return Reason("the scheme rounds activations");
  }
  return epilogue_refusal(problem.linear.epilogue);
}

void run(const LinearCall& call, LinearWorkspace& workspace) {
  const formats::PackedWeight& weight = call.parts.front().weight;
  const Matrix& x = call.x.transformed(weight, workspace);
  dense_linear(x.data(), x.rows(), x.columns(), weight, call.y, call.ldy, workspace.pool);
}

std::string schedule(const LayerProblem& problem) {
  return problem.linear.m <= kFewDenseRows ? "reads the weights once for all tokens, as they lie"
                                           : "brings tokens and panels of weights into tiles";
}

}  // namespace

LinearKernel dense_kernel() {
  return {"dense", dense_refusal, nullptr, nullptr, nullptr, schedule, run};
}

LinearKernel decoded_kernel() {
  return {"decoded", decoded_refusal, nullptr, nullptr, nullptr, schedule, run};
}

}  // namespace nibble::ops::cpu
