#include "ops/gradient/gradient_ops.h"

#include "core/error.h"
#include "ops/cpu/vector/vector_kernels.h"
#include "ops/gradient/activation_gradient.h"
#include "ops/gradient/attention_gradient.h"
#include "ops/gradient/attention_scores.h"
#include "ops/gradient/linear_gradient.h"
#include "ops/gradient/norm_gradient.h"
#include "ops/gradient/rounded_input.h"

namespace nibble::ops::gradient {
namespace {

using Values = cpu::Matrix;

constexpr std::int64_t kRowsPerTask = 8;

void add_to(Values& y, const Values& x) {
  cpu::vector_kernels().add(y.data(), x.data(), x.rows() * x.columns());
}

}  // namespace

Variable GradientOps::result(Values value) {
  Variable variable;
  variable.node_ = std::make_shared<Variable::Node>();
  variable.node_->value = std::move(value);
  return variable;
}

Values& GradientOps::gradient_of(Variable::Node& node) {
  if (node.gradient.empty()) {
    node.gradient = ops_.zeros(node.value.rows(), node.value.columns());
  }
  return node.gradient;
}

void GradientOps::record(const Variable& output, std::function<void(const Values&)> back) {
  tape_.push_back({output.node_, std::move(back)});
}

void GradientOps::backward(const Variable& from, Values gradient) {
  from.node_->gradient = std::move(gradient);
  backward();
}

void GradientOps::add_gradient(const Variable& at, const Values& gradient) {
  add_to(gradient_of(*at.node_), gradient);
}

void GradientOps::backward() {
  while (!tape_.empty()) {
    const Step step = std::move(tape_.back());
    tape_.pop_back();
    if (!step.output->gradient.empty()) {
      step.back(step.output->gradient);
    }
  }
  forget();
}

void GradientOps::forget() {
  tape_.clear();
  remembered_.clear();
  scores_.clear();
}

Variable GradientOps::embed(const core::Tensor& table, std::span<const std::int32_t> ids) {
  Variable y = result(ops_.embed(table, ids));
  record(y, [this, &table, rows = std::vector(ids.begin(), ids.end())](const Values& g) {
    if (parameters_ != nullptr) {
      add_table_gradient(table, rows, 0, g, *parameters_);
    }
  });
  return y;
}

void GradientOps::add_rows(Variable& x, const core::Tensor& table,
                           std::span<const std::int32_t> ids, std::int64_t offset) {
  Variable sum = result(ops_.copy(x.value()));
  ops_.add_rows(sum.node_->value, table, ids, offset);
  record(sum, [this, &table, offset, from = x.node_,
               rows = std::vector(ids.begin(), ids.end())](const Values& g) {
    add_to(gradient_of(*from), g);
    if (parameters_ != nullptr) {
      add_table_gradient(table, rows, offset, g, *parameters_);
    }
  });
  x = sum;
}

Variable GradientOps::norm_matrix(const Variable& x, const Norm& norm) {
  Variable y = result(ops_.norm_matrix(x.value(), norm));
  record(y, [this, &norm, from = x.node_](const Values& g) {
    if (parameters_ != nullptr) {
      add_norm_parameter_gradients(norm, from->value, g, *parameters_, ops_.pool());
    }
    Values& dx = gradient_of(*from);
    ops_.pool().parallel_for(g.rows(), kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        add_norm_gradient(norm, from->value.row(i), g.row(i), dx.row(i));
      }
    });
  });
  return y;
}

Variable GradientOps::norm(const Variable& x, const Norm& norm, const LinearSet&) {
  return norm_matrix(x, norm);
}

void GradientOps::add(Variable& x, const Variable& delta) {
  Variable sum = result(ops_.copy(x.value()));
  add_to(sum.node_->value, delta.value());
  record(sum, [this, a = x.node_, b = delta.node_](const Values& g) {
    add_to(gradient_of(*a), g);
    add_to(gradient_of(*b), g);
  });
  x = sum;
}

Variable GradientOps::add_norm(Variable& x, const Variable& delta, const Norm& norm,
                               const LinearSet&) {
  add(x, delta);
  return norm_matrix(x, norm);
}

Variable GradientOps::post_norm(Variable& x, const Variable& delta, const Norm& norm,
                                const LinearSet&) {
  add(x, delta);
  x = norm_matrix(x, norm);
  return x;
}

Variable GradientOps::linear(const Variable& input, const LinearSet& set) {
  require_plain_weights(set);
  const std::optional<InputRounding> rounding = rounding_of(set);
  core::require(!rounding || ops_.unprepared_bytes(set) == 0, core::ErrorKind::kFailed,
                "layer {} rounds its input, but no layout was made of it", set.parts.front().name);
  cpu::CpuOps::Input values(ops_.copy(input.value()));
  Variable y = result(ops_.linear(values, set));
  record(y, [this, &set, rounding, from = input.node_](const Values& g) {
    const bool is_seen = observer_ || parameters_ != nullptr;
    const Values rounded =
        rounding && is_seen ? rounded_input(from->value, *rounding, ops_) : Values();
    const Values& read = rounding ? rounded : from->value;
    if (observer_) {
      observer_(set, read, g);
    }
    if (parameters_ != nullptr) {
      add_linear_parameter_gradients(set, read, g, *parameters_, ops_.pool());
    }
    if (!rounding || !rounding->cuts()) {
      add_linear_gradient(set, g, gradient_of(*from), ops_.pool());
      return;
    }
    Values dx = ops_.zeros(from->value.rows(), from->value.columns());
    add_linear_gradient(set, g, dx, ops_.pool());
    cut_gradient(from->value, *rounding, dx, ops_.pool());
    add_to(gradient_of(*from), dx);
  });
  return y;
}

Variable GradientOps::attention(const Variable& qkv, const AttentionSpec& spec, std::int64_t layer,
                                const Batch<cpu::KvCache>& batch, const LinearSet& set) {
  for (const auto& slice : batch.slices) {
    core::require(slice.cache == nullptr, core::ErrorKind::kFailed,
                  "gradients do not pass through a KV cache");
  }
  auto turned = std::make_shared<Values>(ops_.copy(qkv.value()));
  Variable y = result(ops_.copy(ops_.attention(*turned, spec, layer, batch, set).values()));
  std::vector<RowRange> sequences;
  for (const auto& slice : batch.slices) {
    sequences.push_back({slice.row, slice.rows});
  }
  const std::vector<std::int32_t> positions(batch.positions.begin(), batch.positions.end());
  const Node scores = keep_scores_of(spec, reading_themselves(sequences),
                                     {*turned, *turned, spec.heads * spec.head_dim});
  record(y, [this, &spec, turned, from = qkv.node_, to = y.node_.get(), sequences, positions,
             scores](const Values& g) {
    add_attention_gradient(
        {spec, sequences, positions, from->value, *turned, to->value, slope_of(scores)}, g,
        gradient_of(*from), ops_.pool());
  });
  record_scores(scores, y);
  return y;
}

GradientOps::Node GradientOps::keep_scores_of(const AttentionSpec& spec,
                                              std::span<const TextRows> texts,
                                              const ScoredHeads& heads) {
  if (!keeps_scores_) {
    return nullptr;
  }
  Variable scores = result(ops_.zeros(1, first_scores_of(spec, texts).back()));
  compute_scores(spec, texts, heads, scores.node_->value, ops_.pool());
  return scores_.emplace_back(scores).node_;
}

const Values* GradientOps::slope_of(const Node& scores) {
  return scores && !scores->gradient.empty() ? &scores->gradient : nullptr;
}

void GradientOps::record_scores(const Node& scores, const Variable& output) {
  if (scores) {
    tape_.push_back({scores, [this, to = output.node_](const Values&) { gradient_of(*to); }});
  }
}

void GradientOps::remember(const Variable& kv, const AttentionSpec& spec, std::int64_t layer,
                           const Batch<cpu::KvCache>& batch) {
  ops_.remember(kv.value(), spec, layer, batch);
  for (const auto& slice : batch.slices) {
    remembered_[{slice.memory, layer}] = {kv.node_, {slice.row, slice.rows}};
  }
}

const GradientOps::Remembered& GradientOps::remembered(const cpu::KvCache* memory,
                                                       std::int64_t layer) const {
  const auto found = remembered_.find({memory, layer});
  core::require(found != remembered_.end(), core::ErrorKind::kFailed,
                "gradients do not pass to a text that was not remembered beside this one");
  return found->second;
}

Variable GradientOps::attend(const Variable& q, const AttentionSpec& spec, std::int64_t layer,
                             const Batch<cpu::KvCache>& batch, const LinearSet& set) {
  Variable y = result(ops_.copy(ops_.attend(q.value(), spec, layer, batch, set).values()));
  std::vector<TextRows> texts;
  Node kv;
  for (const auto& slice : batch.slices) {
    const Remembered& read = remembered(slice.memory, layer);
    core::require(kv == nullptr || kv == read.kv, core::ErrorKind::kFailed,
                  "the texts of a batch were remembered one by one");
    kv = read.kv;
    texts.push_back({{slice.row, slice.rows}, read.rows});
  }
  const Node scores = keep_scores_of(spec, texts, {q.value(), kv->value});
  record(y, [this, &spec, texts, kv, from = q.node_, to = y.node_.get(), scores](const Values& g) {
    add_memory_gradient({spec, texts, from->value, kv->value, to->value, slope_of(scores)}, g,
                        gradient_of(*from), gradient_of(*kv), ops_.pool());
  });
  record_scores(scores, y);
  return y;
}

void GradientOps::scale(Variable& x, float factor) {
  Variable y = result(ops_.copy(x.value()));
  ops_.scale(y.node_->value, factor);
  record(y, [this, factor, from = x.node_](const Values& g) {
    cpu::vector_kernels().axpy_f32(factor, g.data(), gradient_of(*from).data(),
                                   g.rows() * g.columns());
  });
  x = y;
}

void GradientOps::activate(Variable& x, MlpActivation activation) {
  Variable y = result(ops_.copy(x.value()));
  ops_.activate(y.node_->value, activation);
  record_activation(x, y, activation);
  x = y;
}

Variable GradientOps::mlp_activation(const Variable& x, MlpActivation activation,
                                     const LinearSet& set) {
  Variable y = result(ops_.copy(ops_.mlp_activation(x.value(), activation, set).values()));
  record_activation(x, y, activation);
  return y;
}

void GradientOps::record_activation(const Variable& x, const Variable& y,
                                    MlpActivation activation) {
  record(y, [this, activation, from = x.node_](const Values& g) {
    Values& dx = gradient_of(*from);
    ops_.pool().parallel_for(g.rows(), kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        add_activation_gradient(activation, from->value.row(i), g.row(i), dx.row(i), g.columns());
      }
    });
  });
}

Variable GradientOps::gated_activation(const Variable& gate_up, MlpActivation activation,
                                       const LinearSet& set) {
  Variable y = result(ops_.copy(ops_.gated_activation(gate_up.value(), activation, set).values()));
  record(y, [this, activation, from = gate_up.node_](const Values& g) {
    const std::int64_t width = g.columns();
    Values& dx = gradient_of(*from);
    ops_.pool().parallel_for(g.rows(), kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const float* gate = from->value.row(i);
        add_gated_gradient(activation, gate, gate + width, g.row(i), dx.row(i), dx.row(i) + width,
                           width);
      }
    });
  });
  return y;
}

std::vector<ExpertRows> GradientOps::route(const Variable& logits, const RoutingSpec& spec) {
  return ops_.route(logits.value(), spec);
}

Variable GradientOps::gather(const Variable& x, std::span<const std::int32_t> rows) {
  Variable y = result(ops_.gather(x.value(), rows));
  record(y, [this, from = x.node_, kept = std::vector(rows.begin(), rows.end())](const Values& g) {
    Values& dx = gradient_of(*from);
    for (std::size_t i = 0; i < kept.size(); ++i) {
      cpu::vector_kernels().add(dx.row(kept[i]), g.row(static_cast<std::int64_t>(i)), g.columns());
    }
  });
  return y;
}

void GradientOps::scatter_add(Variable& sum, const Variable& x, const ExpertRows& expert) {
  Variable total = result(ops_.copy(sum.value()));
  ops_.scatter_add(total.node_->value, x.value(), expert);
  record(total, [this, a = sum.node_, b = x.node_, expert](const Values& g) {
    add_to(gradient_of(*a), g);
    Values& dx = gradient_of(*b);
    for (std::size_t i = 0; i < expert.rows.size(); ++i) {
      cpu::vector_kernels().axpy_f32(expert.weights[i], g.row(expert.rows[i]),
                                     dx.row(static_cast<std::int64_t>(i)), g.columns());
    }
  });
  sum = total;
}

Variable GradientOps::zeros(std::int64_t rows, std::int64_t columns) {
  return result(ops_.zeros(rows, columns));
}

static_assert(EncoderOps<GradientOps>);

}  // namespace nibble::ops::gradient
