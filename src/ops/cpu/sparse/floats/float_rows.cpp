#include "ops/cpu/sparse/floats/float_rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "formats/block_sparse.h"
#include "ops/cpu/dense/dense_linear.h"
#include "ops/cpu/linear/linear_kernels.h"
#include "ops/cpu/packed/page_buffer.h"
#include "ops/cpu/sparse/floats/grouped_rows.h"
#include "ops/cpu/sparse/row_tasks.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace {

using formats::PackedWeight;

constexpr std::int64_t kRowsTogether = 4;  // tokens that read a group at once

/// The stored groups of a row: one that begins in an even register, one that begins in an odd one,
/// and so on; each kind ascends. Registers behind the last pair count as even (groups.inc).
std::vector<std::int64_t> alternating(const PackedWeight& weight, std::int64_t row) {
  const std::int64_t width = vector_kernels().block;
  const std::int64_t paired = weight.k / (2 * width) * 2;
  std::array<std::vector<std::int64_t>, 2> kinds;
  formats::for_each_stored_group(weight, row, [&](std::int64_t at, std::int64_t group) {
    const std::int64_t first = group * weight.scheme.scale.group;
    const bool is_odd = first / width % 2 != 0 && first / width < paired;
    kinds[is_odd ? 1 : 0].push_back(at);
  });
  const std::size_t longest = std::max(kinds[0].size(), kinds[1].size());
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < longest; ++i) {
    for (const std::vector<std::int64_t>& kind : kinds) {
      if (i < kind.size()) {
        order.push_back(kind[i]);
      }
    }
  }
  return order;
}

/// Rows of a part in another order.
core::Tensor reordered(const core::Tensor& part, std::span<const std::int64_t> order) {
  core::Tensor result = core::Tensor::zeros(part.dtype(), part.shape());
  const std::int64_t bytes = part.dim(1) * core::size_of(part.dtype());
  std::byte* to = result.mutable_raw();
  for (const std::int64_t row : order) {
    std::memcpy(to, part.raw() + row * bytes, static_cast<std::size_t>(bytes));
    to += bytes;
  }
  return result;
}

Refusal refusal(const LayerProblem& problem) {
  const formats::Scheme& scheme = problem.linear.scheme;
  if (formats::is_dense(scheme)) {
    return Reason("weights are dense");
  }
  if (!formats::is_block_sparse(scheme)) {
    return Reason("weights are no block-sparse rows");
  }
  if (formats::has_codes(scheme)) {
    return Reason("weights are codes");
  }
  if (!problem.prepared) {
    return Reason("the layer was not prepared");
  }
  return epilogue_refusal(problem.linear.epilogue);
}

std::string schedule(const LayerProblem& problem) {
  return problem.linear.m <= kFewGroupedRows
             ? "reads the kept groups for four tokens at a time, as they lie"
             : "brings tokens and panels of weights into tiles, zeros among them";
}

void run(const LinearCall& call, LinearWorkspace& workspace) {
  const std::vector<const PackedWeight*> weights = forms_of<PackedWeight>(call.layers);
  const Matrix& x = call.x.values();
  core::require(weights.front()->k == x.columns(), core::ErrorKind::kFailed,
                "layer {} reads {} inputs, got {}", call.parts.front().name, weights.front()->k,
                x.columns());
  float_rows_linear(x.data(), x.rows(), x.columns(), weights, call.y, call.ldy, workspace.pool);
}

/// The weight in memory of its own on huge pages (PageBuffer).
PackedWeight on_huge_pages(const PackedWeight& weight) {
  constexpr std::int64_t kLine = 64;
  const auto room = [](const core::Tensor& tensor) {
    return (tensor.bytes() + kLine - 1) / kLine * kLine;
  };
  std::int64_t bytes = 0;
  for (const formats::PartSlot& slot : formats::part_slots()) {
    bytes += room(weight.*slot.tensor);
  }
  const auto memory = std::make_shared<PageBuffer>(bytes);
  PackedWeight copy = weight;
  std::int64_t at = 0;
  for (const formats::PartSlot& slot : formats::part_slots()) {
    const core::Tensor& from = weight.*slot.tensor;
    if (!from.empty()) {
      std::byte* const to = memory->data() + at;
      std::memcpy(to, from.raw(), static_cast<std::size_t>(from.bytes()));
      copy.*slot.tensor = core::Tensor::view(from.dtype(), from.shape(), to, memory);
      at += room(from);
    }
  }
  return copy;
}

}  // namespace

PackedWeight in_order_of_sums(const PackedWeight& weight) {
  std::vector<std::int64_t> order;
  for (std::int64_t row = 0; row < weight.n; ++row) {
    const std::vector<std::int64_t> of_row = alternating(weight, row);
    order.insert(order.end(), of_row.begin(), of_row.end());
  }
  PackedWeight copy = weight;
  copy.values = reordered(weight.values, order);
  copy.groups = reordered(weight.groups, order);
  return on_huge_pages(copy);
}

void float_rows_linear(const float* x, std::int64_t m, std::int64_t ldx,
                       std::span<const PackedWeight* const> weights, float* y, std::int64_t ldy,
                       core::ThreadPool& pool) {
  if (m > kFewGroupedRows) {
    for (const PackedWeight* const weight : weights) {
      dense_linear(x, m, ldx, *weight, y, ldy, pool);
      y += weight->n;
    }
    return;
  }
  std::vector<GroupedRows> rows;
  RowTasks tasks(pool.size(), m > kRowsTogether);
  for (const PackedWeight* const weight : weights) {
    rows.push_back(grouped_rows(*weight));
    tasks.add(weight->row_index.data<std::int32_t>(), weight->values.bytes());
  }
  const VectorKernels& kernels = vector_kernels();
  pool.parallel_for(tasks.count(), 1, [&](std::int64_t task, std::int64_t) {
    const auto [layer, begin, end, column] = tasks.at(task);
    kernels.multiply_groups(x, ldx, m, rows[layer], begin, end, y + column, ldy);
  });
}

LinearKernel float_rows_kernel() {
  const auto prepare = [](const PackedWeight& weight, core::ThreadPool&) {
    return PreparedLayer{in_order_of_sums(weight), {}};
  };
  return {"sparse-f16", refusal, prepare, schedule, run};
}

}  // namespace nibble::ops::cpu
