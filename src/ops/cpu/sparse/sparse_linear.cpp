#include "ops/cpu/sparse/sparse_linear.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <vector>

#include "formats/block_sparse.h"
#include "ops/cpu/architecture/architecture.h"
#include "ops/cpu/linear/linear_kernels.h"
#include "ops/cpu/vector/scratch.h"

namespace nibble::ops::cpu {
namespace {

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

/// One token's codes and scales in blocks.
void fill_blocks(const QuantizedInput& input, std::int64_t token, const SparseInput& x,
                 std::uint8_t* block) {
  const auto piece = std::min<std::int64_t>(kSparsePiece, input.group());
  for (std::int64_t g = 0; g < x.groups; ++g) {
    const float scale = input.scales(token)[g];
    const float four[] = {scale, scale, scale, scale};
    for (std::int64_t i = 0; i < input.group(); i += piece, block += kSparseBlock) {
      const std::int8_t* codes = input.codes(token) + g * input.group_stride() + i;
      std::memcpy(block, codes, static_cast<std::size_t>(piece));
      std::memcpy(block + kSparsePiece, four, sizeof(four));
      std::memcpy(block + std::ptrdiff_t{2} * kSparsePiece, codes, static_cast<std::size_t>(piece));
    }
  }
  std::memset(block, 0, static_cast<std::size_t>(x.group_bytes));
}

/// The activations in blocks, which lie in `scratch`.
SparseInput blocks_of(const QuantizedInput& input, Scratch& scratch, core::ThreadPool& pool) {
  SparseInput x;
  x.m = input.m() * input.rows_per_token();
  x.groups = input.groups();
  x.group_bytes = (input.group() + kSparsePiece - 1) / kSparsePiece * kSparseBlock;
  x.token_bytes = (x.groups + 1) * x.group_bytes;
  auto* const memory = reinterpret_cast<std::uint8_t*>(
      scratch.floats(x.m * x.token_bytes / static_cast<std::int64_t>(sizeof(float))));
  x.blocks = memory;
  const auto fill = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      fill_blocks(input, token, x, memory + token * x.token_bytes);
    }
  };
  if (x.m <= kTokensPerTask) {  // takes less time than to wake threads
    fill(0, x.m);
  } else {
    pool.parallel_for(x.m, kTokensPerTask, fill);
  }
  return x;
}

/// One of the weights that share an input.
struct Part {
  SparseWeight rows;
  std::span<const std::int32_t> row_index;
  std::int64_t first_task;
  std::int64_t tasks;
  std::int64_t column;  // of y
};

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
  if (!formats::is_block_sparse(scheme)) {
    return Reason("weights are no block-sparse rows");
  }
  if (formats::has_tile_pattern(scheme)) {
    return Reason("tiles of rows keep the same groups, which packed kernels take");
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
  std::vector<const formats::PackedWeight*> weights;
  for (const PreparedLayer& layer : call.layers) {
    weights.push_back(&*layer.copy);
  }
  core::require(weights.front()->k == call.x.values().columns(), core::ErrorKind::kFailed,
                "layer {} reads {} inputs, got {}", call.parts.front().name, weights.front()->k,
                call.x.values().columns());
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

void sparse_linear(const SparseKernel& kernel,
                   std::span<const formats::PackedWeight* const> weights,
                   const QuantizedInput& input, float* y, std::int64_t ldy,
                   core::ThreadPool& pool) {
  thread_local Scratch scratch;  // of the calling thread; the workers read it
  thread_local Scratch digits_scratch;
  const SparseInput blocks = blocks_of(input, scratch, pool);
  std::vector<Part> parts;
  std::int64_t tasks = 0;
  std::int64_t width = 0;
  for (const formats::PackedWeight* const weight : weights) {
    const std::int64_t count = std::min(
        weight->n, std::max(kTasksPerThread * pool.size(), weight->codes.bytes() / kTaskBytes));
    parts.push_back(
        {view_of(*weight), weight->row_index.data<std::int32_t>(), tasks, count, width});
    tasks += count;
    width += weight->n;
  }
  const bool wide = input.rows_per_token() != 1;
  float* const out = wide ? digits_scratch.floats(blocks.m * width) : y;
  const std::int64_t ldo = wide ? width : ldy;
  pool.parallel_for(tasks, 1, [&](std::int64_t task, std::int64_t) {
    const auto part = std::prev(std::find_if(
        parts.begin(), parts.end(), [&](const Part& other) { return other.first_task > task; }));
    const std::int64_t at = task - part->first_task;
    kernel.run(part->rows, blocks, first_row(part->row_index, at, part->tasks),
               first_row(part->row_index, at + 1, part->tasks), out + part->column, ldo);
  });
  if (wide) {
    add_digits(out, input.m(), width, y, ldy);
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
  entry.needs = sparse_needs;
  entry.schedule = [](const LayerProblem&) {
    return std::string("reads the kept groups for four tokens at a time, as they lie");
  };
  entry.run = [&kernel](const LinearCall& call, LinearWorkspace& workspace) {
    run(kernel, call, workspace);
  };
  return entry;
}

}  // namespace nibble::ops::cpu
