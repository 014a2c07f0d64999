#include "ops/cpu/sparse/sparse_linear.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "formats/block_sparse.h"
#include "ops/cpu/architecture/architecture.h"
#include "ops/cpu/linear/linear_kernels.h"
#include "ops/cpu/vector/scratch.h"

namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kScales = 4;             // of a block
constexpr std::int64_t kTasksPerThread = 8;     // at least
constexpr std::int64_t kTaskBytes = 128 << 10;  // of codes: what many tokens read again from caches
constexpr std::int64_t kTokensPerTask = 8;

SparseWeight view_of(const formats::PackedWeight& weight) {
  static_assert(sizeof(core::Fp16) == sizeof(std::uint16_t));
  SparseWeight view;
  view.row_index = weight.row_index.data<std::int32_t>().data();
  view.groups = weight.groups.data<std::uint8_t>().data();
  view.codes = weight.codes.data<std::uint8_t>().data();
  view.scales = reinterpret_cast<const std::uint16_t*>(weight.scales.data<core::Fp16>().data());
  view.zeros =
      formats::has_zeros(weight.scheme) ? weight.zeros.data<std::uint8_t>().data() : nullptr;
  view.group = weight.scheme.scale.group;
  view.index_bytes = static_cast<int>(weight.groups.dim(1));
  view.bits = weight.scheme.code.bits;
  return view;
}

/// Codes and scales of the activations in blocks. They lie in `scratch`.
SparseInput blocks_of(const QuantizedInput& input, Scratch& scratch, core::ThreadPool& pool) {
  const std::int64_t group = input.group();
  SparseInput blocks;
  blocks.m = input.m() * input.rows_per_token();
  blocks.groups = input.groups();
  blocks.block_bytes = group + kScales * static_cast<std::int64_t>(sizeof(float));
  blocks.token_bytes = (blocks.groups + 1) * blocks.block_bytes;
  const std::int64_t floats =
      blocks.m * blocks.token_bytes / static_cast<std::int64_t>(sizeof(float));
  auto* const memory = reinterpret_cast<std::uint8_t*>(scratch.floats(floats));
  blocks.blocks = memory;
  pool.parallel_for(blocks.m, kTokensPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      std::uint8_t* block = memory + token * blocks.token_bytes;
      const float* scales = input.scales(token);
      for (std::int64_t g = 0; g < blocks.groups; ++g, block += blocks.block_bytes) {
        const float four[kScales] = {scales[g], scales[g], scales[g], scales[g]};
        std::memcpy(block, input.codes(token) + g * input.group_stride(),
                    static_cast<std::size_t>(group));
        std::memcpy(block + group, four, sizeof(four));
      }
      std::memset(block, 0, static_cast<std::size_t>(blocks.block_bytes));
    }
  });
  return blocks;
}

/// The first row of a task, so that tasks have about equally many kept groups.
std::int64_t first_row(std::span<const std::int32_t> row_index, std::int64_t task,
                       std::int64_t tasks) {
  if (task == 0) {
    return 0;
  }
  const auto rows = static_cast<std::int64_t>(row_index.size()) - 1;
  if (task == tasks) {
    return rows;
  }
  const std::int64_t wanted = row_index.back() * task / tasks;
  return std::lower_bound(row_index.begin(), row_index.end() - 1, wanted) - row_index.begin();
}

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
  if (!formats::is_sparse(scheme)) {
    return Reason("weights are no block-sparse rows");
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
  if (!kernel.takes(scheme.code.bits, scheme.scale.group)) {
    return Reason("it has no loops for {} bits in groups of {}", std::int64_t{scheme.code.bits},
                  scheme.scale.group);
  }
  return epilogue_refusal(problem.linear.epilogue);
}

void run(const SparseKernel& kernel, const LinearCall& call, LinearWorkspace& workspace) {
  const formats::PackedWeight& weight = *call.layers.front().copy;
  core::require(weight.k == call.x.values().columns(), core::ErrorKind::kFailed,
                "layer {} reads {} inputs, got {}", call.parts.front().name, weight.k,
                call.x.values().columns());
  const bool wide = call.layers.front().needs.wide;
  sparse_linear(kernel, weight, call.x.quantized(sparse_needs(weight, wide), workspace), call.y,
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

InputNeeds sparse_needs(const formats::PackedWeight& weight, bool wide) {
  const formats::Scheme& scheme = weight.scheme;
  InputNeeds needs;
  needs.group = scheme.scale.group;
  needs.wide = wide;
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

void sparse_linear(const SparseKernel& kernel, const formats::PackedWeight& weight,
                   const QuantizedInput& input, float* y, std::int64_t ldy,
                   core::ThreadPool& pool) {
  thread_local Scratch scratch;  // of the calling thread; the workers read it
  thread_local Scratch digits_scratch;
  const SparseWeight rows = view_of(weight);
  const SparseInput blocks = blocks_of(input, scratch, pool);
  const bool wide = input.rows_per_token() != 1;
  float* const out = wide ? digits_scratch.floats(blocks.m * weight.n) : y;
  const std::int64_t ldo = wide ? weight.n : ldy;
  const auto row_index = weight.row_index.data<std::int32_t>();
  const std::int64_t tasks = std::min(
      weight.n, std::max(kTasksPerThread * pool.size(), weight.codes.bytes() / kTaskBytes));
  pool.parallel_for(tasks, 1, [&](std::int64_t first, std::int64_t last) {
    kernel.run(rows, blocks, first_row(row_index, first, tasks), first_row(row_index, last, tasks),
               out, ldo);
  });
  if (wide) {
    add_digits(out, input.m(), weight.n, y, ldy);
  }
}

formats::PackedWeight on_huge_pages(const formats::PackedWeight& weight) {
  constexpr std::int64_t kLine = 64;
  const auto room = [](const core::Tensor& tensor) {
    return (tensor.bytes() + kLine - 1) / kLine * kLine;
  };
  std::int64_t bytes = 0;
  for (const formats::PartSlot& slot : formats::part_slots()) {
    bytes += room(weight.*slot.tensor);
  }
  const auto memory = std::make_shared<PageBuffer>(bytes);
  formats::PackedWeight copy = weight;
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

LinearKernel sparse_kernel(const SparseKernel& kernel) {
  LinearKernel entry;
  entry.name = std::string("sparse-") + kernel.name;
  entry.refusal = [&kernel](const LayerProblem& problem) { return refusal(kernel, problem); };
  entry.copy = on_huge_pages;
  entry.schedule = [](const LayerProblem&) {
    return std::string("reads the kept groups for four tokens at a time, as they lie");
  };
  entry.run = [&kernel](const LinearCall& call, LinearWorkspace& workspace) {
    run(kernel, call, workspace);
  };
  return entry;
}

}  // namespace nibble::ops::cpu
