#include <vector>

#include "formats/fp8/fp8_format.h"
#include "ops/cpu/fp8/fp8_linear.h"
#include "ops/cpu/linear/linear_kernels.h"

namespace nibble::ops::cpu {
namespace {

Refusal refusal(const LayerProblem& problem) {
  if (formats::is_dense(problem.linear.scheme)) {
    return Reason("weights are dense");
  }
  if (!formats::has_float_codes(problem.linear.scheme)) {
    return Reason("weights are no E4M3 numbers");
  }
  return epilogue_refusal(problem.linear.epilogue);
}

std::string schedule(const LayerProblem& problem) {
  return problem.linear.m <= kFewFp8Rows
             ? "widens weights to floats on their way from memory, for four tokens at a time"
             : "widens panels of weights to floats once for all tokens";
}

void run(const LinearCall& call, LinearWorkspace& workspace) {
  const formats::PackedWeight& weight = call.parts.front().weight;
  const Matrix& x = call.x.transformed(weight, workspace);
  if (weight.scheme.activation.is_float()) {
    fp8_linear(x.data(), x.rows(), weight, {}, call.y, call.ldy, workspace.pool);
    return;
  }
  Matrix rounded(workspace.buffers, x.rows(), x.columns());
  std::vector<float> scales(static_cast<std::size_t>(x.rows()));
  round_to_e4m3(x.data(), x.rows(), x.columns(), rounded.data(), scales, workspace.pool);
  fp8_linear(rounded.data(), x.rows(), weight, scales, call.y, call.ldy, workspace.pool);
}

}  // namespace

LinearKernel fp8_kernel() {
  return {"fp8", refusal, nullptr, schedule, run};
}

}  // namespace nibble::ops::cpu
