#include <cstring>
#include <utility>
#include <vector>

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

Refusal whole_refusal(const LayerProblem& problem) {
  const formats::Scheme& scheme = problem.linear.scheme;
  if (formats::is_dense(scheme)) {
    return Reason("weights are dense");
  }
  if (formats::has_codes(scheme)) {
    return Reason("weights are codes");
  }
  if (!problem.prepared) {
    return Reason("the layer was not prepared");
  }
  return epilogue_refusal(problem.linear.epilogue);
}

/// The weight with its zeros.
formats::PackedWeight whole_weight(const formats::PackedWeight& weight) {
  const core::DType dtype = weight.scheme.code.dense;
  core::Tensor whole = core::Tensor::zeros(dtype, {weight.n, weight.k});
  std::vector<float> row(static_cast<std::size_t>(weight.k));
  for (std::int64_t n = 0; n < weight.n; ++n) {
    formats::decode_row(weight, n, row);
    const core::Tensor stored = core::from_float32(row, {1, weight.k}, dtype);
    std::memcpy(whole.mutable_raw() + n * stored.bytes(), stored.raw(),
                static_cast<std::size_t>(stored.bytes()));
  }
  return formats::dense_weight(std::move(whole));
}

PreparedLayer prepare_whole(const formats::PackedWeight& weight, core::ThreadPool&) {
  return {whole_weight(weight), {}};
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

void run_whole(const LinearCall& call, LinearWorkspace& workspace) {
  const Matrix& x = call.x.values();
  float* y = call.y;
  for (const PreparedLayer& layer : call.layers) {
    const auto& weight = std::get<formats::PackedWeight>(layer.form);
    dense_linear(x.data(), x.rows(), x.columns(), weight, y, call.ldy, workspace.pool);
    y += weight.n;
  }
}

std::string schedule(const LayerProblem& problem) {
  return problem.linear.m <= kFewDenseRows ? "reads the weights once for all tokens, as they lie"
                                           : "brings tokens and panels of weights into tiles";
}

}  // namespace

LinearKernel dense_kernel() {
  return {"dense", dense_refusal, nullptr, schedule, run};
}

LinearKernel whole_kernel() {
  return {"dense-whole", whole_refusal, prepare_whole, schedule, run_whole};
}

LinearKernel decoded_kernel() {
  return {"decoded", decoded_refusal, nullptr, schedule, run};
}

}  // namespace nibble::ops::cpu
