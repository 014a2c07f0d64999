#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.h"
#include "ops/cpu/linear/linear_kernels.h"

namespace nibble::ops::cpu {
namespace {

Refusal refusal(const Variant& variant, const LayerProblem& problem) {
  const formats::Scheme& scheme = problem.linear.scheme;
  if (formats::is_dense(scheme)) {
    return Reason("weights are dense");
  }
  if (formats::is_block_sparse(scheme)) {
    return Reason("weights are block-sparse rows");
  }
  if (!has_layout(scheme)) {
    return Reason("weights are {}, not integers or entries of a book", scheme.code.type->name);
  }
  if (problem.activations == ActivationPrecision::kFloat && scheme.activation.is_float()) {
    return Reason("activations are to stay in float");
  }
  if (!problem.prepared) {
    return Reason("no layout was made of the weights");
  }
  if (!variant.runs_here()) {
    return Reason("this machine lacks {}", std::string_view(variant.needs));
  }
  if (problem.named != nullptr && std::string_view(problem.named->name) != variant.name) {
    return Reason("NIBBLE_ISA asks for {}", std::string_view(problem.named->name));
  }
  return epilogue_refusal(problem.linear.epilogue);
}

std::string schedule(const Variant& variant, const LayerProblem& problem) {
  const formats::Scheme& scheme = problem.linear.scheme;
  const std::int64_t rows =
      problem.linear.m * (takes_wide_codes(problem.activations, scheme) ? 2 : 1);
  const int bits = scheme.code.bits;
  const std::int64_t k = problem.linear.k;
  const std::int64_t group = padded_group(formats::group_size(scheme, k), k);
  return variant.direct_rows == nullptr || rows <= variant.direct_rows(group)
             ? fmt::format("decodes weights of {} bits on their way from memory", bits)
             : fmt::format("decodes panels of weights of {} bits once for all tokens", bits);
}

void run(const Variant& variant, const LinearCall& call, LinearWorkspace& workspace) {
  const std::vector<const PackedLinear*> layouts = forms_of<PackedLinear>(call.layers);
  core::require(layouts.front()->k() == call.x.columns(), core::ErrorKind::kFailed,
                "layer {} reads {} inputs, got {}", call.parts.front().name, layouts.front()->k(),
                call.x.columns());
  std::vector<std::span<const float>> biases;
  for (const Linear& part : call.parts) {
    biases.emplace_back(part.bias);
  }
  packed_linear(variant, layouts, call.x.quantized(call.layers.front().needs, workspace), call.y,
                call.ldy, workspace.pool, biases);
}

PreparedLayer prepare(const formats::PackedWeight& weight, core::ThreadPool& pool) {
  return prepared_tiles(PackedLinear::pack(weight, pool));
}

}  // namespace

PreparedLayer prepared_tiles(PackedLinear tiles) {
  InputNeeds needs = tiles.needs();
  return {std::move(tiles), std::move(needs)};
}

LinearKernel packed_kernel(const Variant& variant) {
  LinearKernel kernel;
  kernel.name = std::string("packed-") + variant.name;
  kernel.refusal = [&variant](const LayerProblem& problem) { return refusal(variant, problem); };
  kernel.prepare = prepare;
  kernel.reads_tiles = true;
  kernel.reads_codes = true;
  kernel.adds_bias = true;
  kernel.schedule = [&variant](const LayerProblem& problem) { return schedule(variant, problem); };
  kernel.run = [&variant](const LinearCall& call, LinearWorkspace& workspace) {
    run(variant, call, workspace);
  };
  return kernel;
}

}  // namespace nibble::ops::cpu
