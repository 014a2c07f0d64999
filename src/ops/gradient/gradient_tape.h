#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/tensor.h"
#include "ops/cpu/attention/kv_cache.h"
#include "ops/gradient/parameter_gradients.h"
#include "ops/gradient/plain_weights.h"
#include "ops/gradient/variable.h"
#include "ops/layers.h"
#include "ops/ops.h"

namespace nibble::ops::gradient {

/// What looks on while gradients pass through linear layers.
template <typename Values>
struct LinearWitness {
  /// Sees every linear call on the way back: its input x [m, k], rounded where the layer rounds it,
  /// and the gradient of its output [m, n].
  using Observer = std::function<void(const LinearSet&, const Values& x, const Values& gradient)>;

  Observer observer;
  const ParameterGradients* parameters = nullptr;  // null: there are none

  bool is_there() const { return observer || parameters != nullptr; }
};

/// The operators of ops.h in float32 with reverse-mode differentiation: each call computes its
/// result and notes how to pass a gradient back, so that a forward pass written over Ops has its
/// backward pass too. Weights are constants; so are the shares that a router gives its experts (a
/// gradient does not pass through the choice of experts). Sequences attend among themselves only
/// (no KV cache). One caller at a time.
///
/// `Device` has the numbers: each operator's value, and its gradient, which `..._back()` adds to
/// that of what the operator read (CpuOperators, cuda::CudaOperators).
template <typename Device>
class GradientTape {
 public:
  using Values = typename Device::Matrix;
  using Variable = VariableOf<Values>;
  using Matrix = Variable;
  using Input = Variable;
  using Cache = cpu::KvCache;
  using Observer = typename LinearWitness<Values>::Observer;

  /// `device` must outlive this.
  explicit GradientTape(Device& device) : device_(device) {}

  void set_observer(Observer observer) { witness_.observer = std::move(observer); }

  /// backward() adds to them from here on; null: there are none. They must outlive that.
  void set_parameters(const ParameterGradients* parameters) { witness_.parameters = parameters; }

  /// A matrix that the pass starts from.
  Variable variable(Values value) { return result(std::move(value)); }

  /// Passes `gradient`, that of the loss with respect to `from`, back through all calls since the
  /// last backward() and forgets them.
  void backward(const Variable& from, Values gradient) {
    from.node_->gradient = std::move(gradient);
    backward();
  }

  /// The same of a loss that depends on several matrices: each gets its own slope first, added to
  /// what it has.
  void add_gradient(const Variable& at, const Values& gradient) {
    device_.add(gradient_of(*at.node_), gradient);
  }
  void backward() {
    while (!tape_.empty()) {
      const Step step = std::move(tape_.back());
      tape_.pop_back();
      if (step.output->gradient.rows() != 0) {
        step.back(step.output->gradient);
      }
    }
  }
  /// Forgets all calls since the last backward(): nothing is passed back.
  void forget() { tape_.clear(); }

  Variable embed(const core::Tensor& table, std::span<const std::int32_t> ids) {
    const Variable y = result(device_.embed(table, ids));
    record(y, [this, &table, rows = std::vector(ids.begin(), ids.end())](const Values& g) {
      device_.embed_back(table, rows, 0, g, witness_.parameters);
    });
    return y;
  }

  void add_rows(Variable& x, const core::Tensor& table, std::span<const std::int32_t> ids,
                std::int64_t offset) {
    const Variable sum = result(device_.copy(x.value()));
    device_.add_rows(sum.node_->value, table, ids, offset);
    record(sum, [this, &table, offset, from = x.node_,
                 rows = std::vector(ids.begin(), ids.end())](const Values& g) {
      device_.add(gradient_of(*from), g);
      device_.embed_back(table, rows, offset, g, witness_.parameters);
    });
    x = sum;
  }

  Variable norm_matrix(const Variable& x, const Norm& norm) {
    const Variable y = result(device_.norm_matrix(x.value(), norm));
    record(y, [this, &norm, from = x.node_](const Values& g) {
      device_.norm_back(norm, from->value, g, witness_.parameters, gradient_of(*from));
    });
    return y;
  }
  Variable norm(const Variable& x, const Norm& norm, const LinearSet&) {
    return norm_matrix(x, norm);
  }
  Variable add_norm(Variable& x, const Variable& delta, const Norm& norm, const LinearSet&) {
    add(x, delta);
    return norm_matrix(x, norm);
  }
  Variable post_norm(Variable& x, const Variable& delta, const Norm& norm, const LinearSet&) {
    add(x, delta);
    x = norm_matrix(x, norm);
    return x;
  }

  void add(Variable& x, const Variable& delta) {
    const Variable sum = result(device_.copy(x.value()));
    device_.add(sum.node_->value, delta.value());
    record(sum, [this, a = x.node_, b = delta.node_](const Values& g) {
      device_.add(gradient_of(*a), g);
      device_.add(gradient_of(*b), g);
    });
    x = sum;
  }

  /// Refuses sets with anything but plain weights (plain_weights.h).
  Variable linear(const Variable& input, const LinearSet& set) {
    require_plain_weights(set);
    const Variable y = result(device_.linear(input.value(), set));
    record(y, [this, &set, from = input.node_](const Values& g) {
      device_.linear_back(set, from->value, g, witness_, gradient_of(*from));
    });
    return y;
  }
  /// Nothing is fused.
  std::optional<Variable> linear(const Variable& input, const LinearSet& set,
                                 const Residual<Variable>&) {
    return linear(input, set);
  }
  Variable linear(const Variable& input, const LinearSet& set, const ActivateInto& into) {
    return into.gated ? gated_activation(linear(input, set), into.activation, into.next)
                      : mlp_activation(linear(input, set), into.activation, into.next);
  }

  Variable attention(const Variable& qkv, const AttentionSpec& spec, std::int64_t,
                     const Batch<Cache>& batch, const LinearSet& set) {
    return attention(qkv, spec, batch, set, std::make_shared<Attended>());
  }

  void activate(Variable& x, MlpActivation activation) { x = activated(x, activation); }
  Variable mlp_activation(const Variable& x, MlpActivation activation, const LinearSet&) {
    return activated(x, activation);
  }
  Variable gated_activation(const Variable& gate_up, MlpActivation activation,
                            const LinearSet& set) {
    const Variable y = result(device_.gated_activation(gate_up.value(), activation, set));
    record(y, [this, activation, from = gate_up.node_](const Values& g) {
      device_.gated_activation_back(activation, from->value, g, gradient_of(*from));
    });
    return y;
  }

  void scale(Variable& x, float factor) {
    const Variable y = result(device_.scaled(x.value(), factor));
    record(y, [this, factor, from = x.node_](const Values& g) {
      device_.add_scaled(gradient_of(*from), factor, g);
    });
    x = y;
  }

  Variable widened(Variable x) { return x; }
  Variable input(const Variable& x, const LinearSet&) { return x; }

  std::vector<ExpertRows> route(const Variable& logits, const RoutingSpec& spec) {
    return device_.route(logits.value(), spec);
  }
  Variable gather(const Variable& x, std::span<const std::int32_t> rows) {
    const Variable y = result(device_.gather(x.value(), rows));
    record(y, [this, from = x.node_, kept = std::vector(rows.begin(), rows.end())](
                  const Values& g) { device_.gather_back(kept, g, gradient_of(*from)); });
    return y;
  }
  void scatter_add(Variable& sum, const Variable& x, const ExpertRows& expert) {
    const Variable total = result(device_.copy(sum.value()));
    device_.scatter_add(total.node_->value, x.value(), expert);
    record(total, [this, a = sum.node_, b = x.node_, expert](const Values& g) {
      device_.add(gradient_of(*a), g);
      device_.scatter_add_back(expert, g, gradient_of(*b));
    });
    sum = total;
  }
  Variable zeros(std::int64_t rows, std::int64_t columns) {
    return result(device_.zeros(rows, columns));
  }

 protected:
  using Node = std::shared_ptr<typename Variable::Node>;

  Variable result(Values value) {
    Variable variable;
    variable.node_ = std::make_shared<typename Variable::Node>();
    variable.node_->value = std::move(value);
    return variable;
  }
  // The gradient of a node, zeros at first.
  Values& gradient_of(typename Variable::Node& node) {
    if (node.gradient.rows() == 0) {
      node.gradient = device_.zeros(node.value.rows(), node.value.columns());
    }
    return node.gradient;
  }
  // `back` runs when the gradient of `output` is complete; never when the loss doesn't depend on
  // it.
  void record(const Variable& output, std::function<void(const Values& gradient)> back) {
    tape_.push_back({output.node_, std::move(back)});
  }
  // `seen` is what the device keeps for the way back.
  using Attended = typename Device::Attended;
  Variable attention(const Variable& qkv, const AttentionSpec& spec, const Batch<Cache>& batch,
                     const LinearSet& set, const std::shared_ptr<Attended>& seen) {
    for (const auto& slice : batch.slices) {
      core::require(slice.cache == nullptr, core::ErrorKind::kFailed,
                    "gradients do not pass through a KV cache");
    }
    const Variable y = result(device_.attention(qkv.value(), spec, batch, set, *seen));
    record(y, [this, &spec, seen, from = qkv.node_, to = y.node_.get()](const Values& g) {
      device_.attention_back(spec, *seen, from->value, to->value, g, gradient_of(*from));
    });
    return y;
  }

  Device& device_;

 private:
  Variable activated(const Variable& x, MlpActivation activation) {
    const Variable y = result(device_.activation(x.value(), activation));
    record(y, [this, activation, from = x.node_](const Values& g) {
      device_.activation_back(activation, from->value, g, gradient_of(*from));
    });
    return y;
  }

  LinearWitness<Values> witness_;
  struct Step {
    Node output;
    std::function<void(const Values&)> back;
  };
  std::vector<Step> tape_;
};

}  // namespace nibble::ops::gradient
