#include "ops/cpu/sparse/sparse_linear.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "formats/block_sparse.h"
#include "ops/cpu/architecture/architecture.h"
#include "ops/cpu/linear/linear_kernels.h"
#include "ops/cpu/sparse/row_tasks.h"
#include "ops/cpu/sparse/sparse_input.h"
#include "ops/cpu/vector/scratch.h"

namespace nibble::ops::cpu {
namespace {

/// Wide codes: the sums of two rows are a token.
void add_digits(const float* digits, std::int64_t m, std::int64_t n, float* y, std::int64_t ldy) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      y[i * ldy + j] = digits[2 * i * n + j] + digits[(2 * i + 1) * n + j];
    }
  }
}

/// Whether a variant that NIBBLE_ISA names has the kernel's instructions.
bool has_instructions(const Variant& named, const SparseKernel& kernel) {
  for (const Variant& variant : variants()) {
    if (std::string_view(variant.name) == kernel.name) {
      return true;  // it comes before the named one, or is it
    }
    if (std::string_view(variant.name) == named.name) {
      return false;
    }
  }
  return false;
}

Refusal refusal(const SparseKernel& kernel, const LayerProblem& problem) {
  const formats::Scheme& scheme = problem.linear.scheme;
  if (formats::is_dense(scheme)) {
    return Reason("weights are dense");
  }
  if (!formats::is_block_sparse(scheme)) {
    return Reason("weights are no block-sparse rows");
  }
  if (!formats::has_codes(scheme)) {
    return Reason("weights are floats");
  }
  if (problem.activations == ActivationPrecision::kFloat && scheme.activation.is_float()) {
    return Reason("activations are to stay in float");
  }
  if (!problem.prepared) {
    return Reason("the layer was not prepared");
  }
  if (!kernel.runs_here()) {
    return Reason("this machine lacks {}", std::string_view(kernel.needs));
  }
  if (problem.named != nullptr && !has_instructions(*problem.named, kernel)) {
    return Reason("NIBBLE_ISA asks for {}", std::string_view(problem.named->name));
  }
  return epilogue_refusal(problem.linear.epilogue);
}

void run(const SparseKernel& kernel, const LinearCall& call, LinearWorkspace& workspace) {
  const std::vector<const SparseStreams*> weights = forms_of<SparseStreams>(call.layers);
  core::require(weights.front()->k() == call.x.columns(), core::ErrorKind::kFailed,
                "layer {} reads {} inputs, got {}", call.parts.front().name, weights.front()->k(),
                call.x.columns());
  sparse_linear(kernel, weights, call.x.quantized(call.layers.front().needs, workspace), call.y,
                call.ldy, workspace.pool);
}

}  // namespace

std::span<const SparseKernel> sparse_kernels() {
  static const std::vector<SparseKernel> all = [] {
    std::vector<SparseKernel> found = {scalar_sparse_kernel()};
    for (const SparseKernel& kernel : architecture_sparse_kernels()) {
      found.push_back(kernel);
    }
    return found;
  }();
  return all;
}

InputNeeds sparse_needs(const formats::PackedWeight& weight) {
  const formats::Scheme& scheme = weight.scheme;
  InputNeeds needs;
  needs.group = scheme.scale.group;
  if (scheme.activation.is_float()) {
    needs.activation.group = needs.group;
  } else {
    needs.activation = scheme.activation;
    needs.activation.group = scheme.activation.group >= weight.k ? 0 : scheme.activation.group;
  }
  if (scheme.activation.stored_scale) {
    needs.scale = formats::input_scale_of(weight);
  }
  return needs;
}

void sparse_linear(const SparseKernel& kernel, std::span<const SparseStreams* const> weights,
                   const QuantizedInput& input, float* y, std::int64_t ldy,
                   core::ThreadPool& pool) {
  thread_local Scratch codes_scratch;  // of the calling thread; the workers read it
  thread_local Scratch lanes_scratch;
  thread_local Scratch windows_scratch;
  thread_local Scratch digits_scratch;
  const std::int64_t m = input.m() * input.rows_per_token();
  const bool has_lanes =
      kernel.run_lanes != nullptr &&
      std::all_of(weights.begin(), weights.end(), [](const SparseStreams* weight) {
        return weight->view().held_bits == 4 && weight->view().rows == 1;
      });
  const std::int64_t in_lanes = has_lanes ? rows_in_lanes(m) : 0;
  const std::vector<SparseLanes> lanes = sparse_lanes(input, in_lanes, lanes_scratch, pool);
  SparseInput x = sparse_input(input, in_lanes, codes_scratch);
  const SparseWeight front = weights.front()->view();
  if (kernel.windows != 0 && front.rows == 1 && x.m > 0) {
    x.windows = sparse_windows(x, front.group, front.k, kernel.windows, windows_scratch, pool);
  }
  RowTasks tasks(pool.size(), m > kSparseLanes);
  for (const SparseStreams* const weight : weights) {
    tasks.add(weight->first(), weight->bytes(), weight->view().rows);
  }
  const bool wide = input.rows_per_token() != 1;
  float* const out = wide ? digits_scratch.floats(m * tasks.width()) : y;
  const std::int64_t ldo = wide ? tasks.width() : ldy;
  pool.parallel_for(tasks.count(), 1, [&](std::int64_t task, std::int64_t) {
    const auto [layer, begin, end, column] = tasks.at(task);
    const SparseWeight rows = weights[layer]->view();
    if (!lanes.empty()) {
      kernel.run_lanes(rows, lanes, begin, end, out + column, ldo);
    }
    kernel.run(rows, x, begin, end, out + in_lanes * ldo + column, ldo);
  });
  if (wide) {
    add_digits(out, input.m(), tasks.width(), y, ldy);
  }
}

LinearKernel sparse_kernel(const SparseKernel& kernel) {
  LinearKernel entry;
  entry.name = std::string("sparse-") + kernel.name;
  entry.refusal = [&kernel](const LayerProblem& problem) { return refusal(kernel, problem); };
  entry.prepare = [](const formats::PackedWeight& weight, core::ThreadPool& pool) {
    return PreparedLayer{SparseStreams::pack(weight, pool), sparse_needs(weight)};
  };
  entry.schedule = [](const LayerProblem& problem) {
    const int rows = formats::pattern_rows(problem.linear.scheme);
    return rows == 1 ? std::string(
                           "reads the kept groups of a row, in one stream, for some tokens "
                           "at a time")
                     : fmt::format(
                           "reads the groups that tiles of {} rows keep, in one stream, for "
                           "some tokens at a time",
                           rows);
  };
  entry.run = [&kernel](const LinearCall& call, LinearWorkspace& workspace) {
    run(kernel, call, workspace);
  };
  return entry;
}

}  // namespace nibble::ops::cpu
