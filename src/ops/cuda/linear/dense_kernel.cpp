#include "ops/cuda/linear/linear_kernels.h"

namespace nibble::ops::cuda {
namespace {

Refusal refusal(const LayerProblem& problem) {
  if (!formats::is_dense(problem.linear.scheme)) {
    return Reason("weights are compressed");
  }
  if (problem.linear.epilogue.adds) {
    return Reason("the operator behind a dense layer adds its result");
  }
  if (problem.linear.epilogue.gate) {
    return Reason("it joins no gates");
  }
  return std::nullopt;
}

std::optional<InputForm> input_form(const LayerProblem&) {
  return std::nullopt;
}

std::string schedule(const LayerProblem&) {
  return "eight tokens share a reading of the weights";
}

void run(const LayerProblem&, const LayerWeights& weights, const LinearInput& x,
         const GemmOutput& output, cudaStream_t stream) {
  dense(weights.dense, x.matrix, x.m, output.y, output.stride, output.bias, stream);
}

}  // namespace

LinearKernel dense_kernel() {
  return {"dense", refusal, input_form, nullptr, schedule, run};
}

}  // namespace nibble::ops::cuda
