#include "ops/cpu/cpu_ops.h"

#include <algorithm>

#include "core/cpu_topology.h"
#include "ops/cpu/attention/attention.h"
#include "ops/cpu/dense/dense_linear.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/linear/linear_kernels.h"
#include "ops/cpu/vector/scratch.h"
#include "ops/cpu/vector/vector_kernels.h"
#include "ops/routing.h"

namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kRowsPerTask = 8;
constexpr std::int64_t kElementsPerTask = 1 << 13;  // a multiple of every vector's width
constexpr std::int64_t kLowRankRows = 256;          // rows of a low-rank part that exist at a time

core::ThreadPool make_pool(const CpuOptions& options) {
  core::apply(options.numa);
  const int asked = options.numa == core::Numa::kIsolate ? core::usable_threads(options.threads)
                                                         : options.threads;
  const int threads = asked > 0 ? asked : core::available_cores();
  const std::vector<int> cpus = options.pin ? core::cores_for(threads) : std::vector<int>();
  return core::ThreadPool(threads, cpus);
}

}  // namespace

CpuOps::CpuOps(const CpuOptions& options)
    : pool_(make_pool(options)), activations_(options.activations) {}

const LinearKernel& CpuOps::kernel_of(const Linear& layer, bool prepared) const {
  const formats::PackedWeight& weight = layer.weight;
  LayerProblem problem;
  problem.linear.scheme = weight.scheme;
  problem.linear.n = weight.n;
  problem.linear.k = weight.k;
  problem.activations = activations_;
  problem.prepared = prepared;
  problem.named = named_variant();
  try {
    return choose_kernel(linear_kernels(), problem);
  } catch (const core::Error& error) {
    core::fail(error.kind(), "layer {}: {}", layer.name, error.what());
  }
}

void CpuOps::prepare(const LinearSet& set, const Layout& layout) {
  const auto id = static_cast<std::size_t>(set.id);
  if (prepared_.size() <= id) {
    prepared_.resize(id + 1);
  }
  prepared_[id].clear();
  Prepared layers;
  for (const Linear& part : set.parts) {
    PreparedLayer& layer = layers.emplace_back();
    const LinearKernel& kernel = kernel_of(part, true);
    if (layout && kernel.reads_tiles) {
      layer = prepared_tiles(layout(part));
    } else if (kernel.prepare != nullptr) {
      layer = kernel.prepare(part.weight, pool_);
    }
    layer.kernel = &kernel;
    layer.needs.wide = takes_wide_codes(activations_, part.weight.scheme);
  }
  prepared_[id] = std::move(layers);
}

void CpuOps::release(const LinearSet& set) {
  if (static_cast<std::size_t>(set.id) < prepared_.size()) {
    prepared_[static_cast<std::size_t>(set.id)].clear();
  }
}

const CpuOps::Prepared* CpuOps::prepared(const LinearSet& set) const {
  const auto id = static_cast<std::size_t>(set.id);
  return id < prepared_.size() && !prepared_[id].empty() ? &prepared_[id] : nullptr;
}

std::int64_t CpuOps::prepared_bytes() const {
  std::int64_t sum = 0;
  for (const Prepared& layers : prepared_) {
    for (const PreparedLayer& layer : layers) {
      sum += layer.bytes();
    }
  }
  return sum;
}

bool CpuOps::reads_stored(const LinearSet& set, std::size_t part) const {
  const Prepared* const layers = prepared(set);
  return layers == nullptr || !(*layers)[part].has_own_form();
}

std::int64_t CpuOps::unprepared_bytes(const LinearSet& set) const {
  std::int64_t sum = 0;
  for (std::size_t part = 0; part < set.parts.size(); ++part) {
    sum += reads_stored(set, part) ? formats::stored_bytes(set.parts[part].weight) : 0;
    sum += low_rank_bytes(set.parts[part]);
  }
  return sum;
}

Matrix CpuOps::embed(const core::Tensor& table, std::span<const std::int32_t> ids) {
  Matrix x = zeros(static_cast<std::int64_t>(ids.size()), table.dim(1));
  add_rows(x, table, ids, 0);
  return x;
}

Matrix CpuOps::embed(const StoredRows& table, std::span<const std::int32_t> ids) {
  Matrix x = matrix(std::ssize(ids), table.columns());
  pool_.parallel_for(x.rows(), kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t id = ids[static_cast<std::size_t>(i)];
      core::require(id >= 0 && id < table.rows(), core::ErrorKind::kFailed,
                    "index {} lies outside a table of {} rows", id, table.rows());
      table.read(id, std::span(x.row(i), static_cast<std::size_t>(table.columns())));
    }
  });
  return x;
}

void CpuOps::add_rows(Matrix& x, const core::Tensor& table, std::span<const std::int32_t> ids,
                      std::int64_t offset) {
  const std::int64_t columns = table.dim(1);
  pool_.parallel_for(std::ssize(ids), kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    thread_local Scratch scratch;
    float* const row = scratch.floats(columns);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t id = ids[static_cast<std::size_t>(i)] + offset;
      core::require(id >= 0 && id < table.dim(0), core::ErrorKind::kFailed,
                    "index {} lies outside a table of {} rows", id, table.dim(0));
      const std::byte* source = table.raw() + id * columns * core::size_of(table.dtype());
      core::convert_to_float32(table.dtype(), source, columns, row);
      vector_kernels().add(x.row(i), row, columns);
    }
  });
}

Matrix CpuOps::norm_matrix(const Matrix& x, const Norm& norm) {
  Matrix y = matrix(x.rows(), x.columns());
  pool_.parallel_for(x.rows(), kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      norm_row(norm, x.row(i), y.row(i));
    }
  });
  return y;
}

// How the layers of a set want their input, where they read the same integers and nothing else.
const InputNeeds* CpuOps::codes_for(const LinearSet& set) const {
  const Prepared* const layers = prepared(set);
  if (layers == nullptr || observer_ || keeps_values_) {
    return nullptr;
  }
  const InputNeeds& needs = layers->front().needs;
  for (std::size_t i = 0; i < layers->size(); ++i) {
    const PreparedLayer& layer = (*layers)[i];
    if (!layer.kernel->reads_codes || layer.needs != needs || set.parts[i].low_rank) {
      return nullptr;
    }
  }
  return &needs;
}

// Rows become integers while they are in the cache.
CpuOps::Input CpuOps::input_of_rows(std::int64_t rows, std::int64_t columns, const LinearSet& set,
                                    MakeRow make) {
  if (const InputNeeds* const needs = codes_for(set)) {
    std::shared_ptr<QuantizedInput> codes = unused_codes(workspace_);
    codes->reshape(rows, columns, *needs);
    const Variant& variant = active_variant();
    pool_.parallel_for(rows, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
      thread_local Scratch scratch;
      float* const to = scratch.floats(columns);
      for (std::int64_t i = begin; i < end; ++i) {
        quantize_token(variant, make(i, to), i, *codes);
      }
    });
    return Input(std::move(codes));
  }
  Matrix y = matrix(rows, columns);
  pool_.parallel_for(rows, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (const float* const row = make(i, y.row(i)); row != y.row(i)) {
        std::copy_n(row, columns, y.row(i));
      }
    }
  });
  return Input(std::move(y));
}

CpuOps::Input CpuOps::norm(const Matrix& x, const Norm& norm, const LinearSet& set) {
  return input_of_rows(x.rows(), x.columns(), set, [&](std::int64_t i, float* to) {
    norm_row(norm, x.row(i), to);
    return to;
  });
}

CpuOps::Input CpuOps::add_norm(Matrix& x, const Matrix& delta, const Norm& norm,
                               const LinearSet& set) {
  return input_of_rows(x.rows(), x.columns(), set, [&](std::int64_t i, float* to) {
    vector_kernels().add(x.row(i), delta.row(i), x.columns());
    norm_row(norm, x.row(i), to);
    return to;
  });
}

CpuOps::Input CpuOps::post_norm(Matrix& x, const Matrix& delta, const Norm& norm,
                                const LinearSet& set) {
  return input_of_rows(x.rows(), x.columns(), set, [&](std::int64_t i, float*) {
    vector_kernels().add(x.row(i), delta.row(i), x.columns());
    norm_row(norm, x.row(i), x.row(i));
    return x.row(i);
  });
}

void CpuOps::add(Matrix& x, const Matrix& delta) {
  pool_.parallel_for(x.rows(), kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    vector_kernels().add(x.row(begin), delta.row(begin), (end - begin) * x.columns());
  });
}

Matrix CpuOps::linear(Input& input, const LinearSet& set) {
  if (observer_) {
    observer_(set, input.values());
  }
  Matrix y = matrix(input.rows(), set.n());
  const Prepared* const known = prepared(set);
  Prepared as_stored;
  for (std::size_t i = 0; known == nullptr && i < set.parts.size(); ++i) {
    as_stored.emplace_back().kernel = &kernel_of(set.parts[i], false);
  }
  const std::span<const PreparedLayer> layers = known == nullptr ? as_stored : *known;
  std::int64_t column = 0;
  for (std::size_t first = 0; first < layers.size();) {
    const PreparedLayer& front = layers[first];
    std::size_t count = 1;
    std::int64_t width = set.parts[first].weight.n;
    while (front.has_own_form() && first + count < layers.size() &&
           layers[first + count].kernel == front.kernel &&
           layers[first + count].needs == front.needs) {
      width += set.parts[first + count].weight.n;
      ++count;
    }
    front.kernel->run({input, std::span(set.parts).subspan(first, count),
                       layers.subspan(first, count), y.data() + column, y.columns()},
                      workspace_);
    if (!front.kernel->adds_bias) {
      add_bias(std::span(set.parts).subspan(first, count), column, y, pool_);
    }
    column += width;
    first += count;
  }
  add_low_rank(input, set, y);
  return y;
}

void CpuOps::add_low_rank(const Input& input, const LinearSet& set, Matrix& y) {
  std::int64_t column = 0;
  for (const Linear& part : set.parts) {
    const std::int64_t n = part.weight.n;
    for (std::int64_t row = 0; part.low_rank && row < y.rows(); row += kLowRankRows) {
      const Matrix& x = input.values();
      const LowRank& adapter = *part.low_rank;
      const std::int64_t rows = std::min(kLowRankRows, x.rows() - row);
      Matrix down = matrix(rows, adapter.rank());
      Matrix up = matrix(rows, n);
      dense_linear(x.row(row), rows, x.columns(), adapter.a, down.data(), down.columns(), pool_);
      dense_linear(down.data(), rows, down.columns(), adapter.b, up.data(), n, pool_);
      for (std::int64_t i = 0; i < rows; ++i) {
        vector_kernels().axpy_f32(adapter.scale, up.row(i), y.row(row + i) + column, n);
      }
    }
    column += n;
  }
}

CpuOps::Input CpuOps::attention(Matrix& qkv, const AttentionSpec& spec, std::int64_t layer,
                                const Batch<KvCache>& batch, const LinearSet&) {
  for (const auto& slice : batch.slices) {
    core::require(slice.cache == nullptr || slice.position + slice.rows <= slice.cache->capacity(),
                  core::ErrorKind::kFailed, "position {} does not fit a KV cache of {} tokens",
                  slice.position + slice.rows - 1,
                  slice.cache == nullptr ? 0 : slice.cache->capacity());
    core::require(!spec.mask.bidirectional || slice.position == 0, core::ErrorKind::kFailed,
                  "attention in both directions takes sequences as a whole");
  }
  Matrix out = matrix(qkv.rows(), spec.heads * spec.head_dim);
  cpu::attention(qkv, spec, layer, batch, out, pool_);
  return Input(std::move(out));
}

void CpuOps::remember(const Matrix& kv, const AttentionSpec& spec, std::int64_t layer,
                      const Batch<KvCache>& batch) {
  cpu::remember(kv, spec, layer, batch, pool_);
}

CpuOps::Input CpuOps::attend(const Matrix& q, const AttentionSpec& spec, std::int64_t layer,
                             const Batch<KvCache>& batch, const LinearSet&) {
  Matrix out = matrix(q.rows(), spec.heads * spec.head_dim);
  cpu::attend_to_memory(q, spec, layer, batch, out, pool_);
  return Input(std::move(out));
}

void CpuOps::scale(Matrix& x, float factor) {
  vector_kernels().scale(factor, x.data(), x.rows() * x.columns());
}

CpuOps::Input CpuOps::mlp_activation(const Matrix& x, MlpActivation activation,
                                     const LinearSet& set) {
  return input_of_rows(x.rows(), x.columns(), set, [&](std::int64_t i, float* to) {
    cpu::activate(activation, x.row(i), to, x.columns());
    return to;
  });
}

void CpuOps::activate(Matrix& x, MlpActivation activation) {
  const std::int64_t count = x.rows() * x.columns();
  pool_.parallel_for(count, kElementsPerTask, [&](std::int64_t begin, std::int64_t end) {
    cpu::activate(activation, x.data() + begin, x.data() + begin, end - begin);
  });
}

CpuOps::Input CpuOps::gated_activation(const Matrix& gate_up, MlpActivation activation,
                                       const LinearSet& set) {
  const std::int64_t width = gate_up.columns() / 2;
  return input_of_rows(gate_up.rows(), width, set, [&](std::int64_t i, float* to) {
    activate_gated(activation, gate_up.row(i), gate_up.row(i) + width, to, width);
    return to;
  });
}

CpuOps::Input CpuOps::input(const Matrix& x, const LinearSet& set) {
  return input_of_rows(x.rows(), x.columns(), set,
                       [&](std::int64_t i, float*) { return x.row(i); });
}

Matrix CpuOps::gather(const Matrix& x, std::span<const std::int32_t> rows) {
  Matrix y = matrix(static_cast<std::int64_t>(rows.size()), x.columns());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(x.row(rows[i]), x.columns(), y.row(static_cast<std::int64_t>(i)));
  }
  return y;
}

void CpuOps::scatter_add(Matrix& sum, const Matrix& x, const ExpertRows& expert) {
  for (std::size_t i = 0; i < expert.rows.size(); ++i) {
    vector_kernels().axpy_f32(expert.weights[i], x.row(static_cast<std::int64_t>(i)),
                              sum.row(expert.rows[i]), x.columns());
  }
}

Matrix CpuOps::copy(const Matrix& x, std::int64_t first, std::int64_t rows) {
  Matrix y = matrix(rows, x.columns());
  std::copy_n(x.row(first), rows * x.columns(), y.data());
  return y;
}

Matrix CpuOps::zeros(std::int64_t rows, std::int64_t columns) {
  Matrix x = matrix(rows, columns);
  std::fill_n(x.data(), rows * columns, 0.0f);
  return x;
}

std::vector<ExpertRows> CpuOps::route(const Matrix& logits, const RoutingSpec& spec) {
  return ops::route(logits.data(), logits.rows(), logits.columns(), spec,
                    vector_kernels().softmax_numerators);
}

}  // namespace nibble::ops::cpu
