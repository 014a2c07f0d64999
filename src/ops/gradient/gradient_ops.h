#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/gradient/attention_gradient.h"
#include "ops/gradient/attention_scores.h"
#include "ops/gradient/parameter_gradients.h"
#include "ops/layers.h"
#include "ops/ops.h"

namespace nibble::ops::gradient {

/// A matrix of a forward pass, with the gradient of the loss once backward() has come past it.
/// Copies share both.
class Variable {
 public:
  Variable() = default;
  std::int64_t rows() const { return node_->value.rows(); }
  std::int64_t columns() const { return node_->value.columns(); }
  const cpu::Matrix& value() const { return node_->value; }

  /// [rows, columns]; empty when the loss does not depend on this matrix.
  const cpu::Matrix& gradient() const { return node_->gradient; }

 private:
  friend class GradientOps;
  struct Node {
    cpu::Matrix value;
    cpu::Matrix gradient;
  };
  std::shared_ptr<Node> node_;
};

/// The operators of ops.h in float32 with reverse-mode differentiation: each call computes its
/// result and notes how to pass a gradient back, so that a forward pass written over Ops has its
/// backward pass too. Weights are constants; so are the shares that a router gives its experts (a
/// gradient does not pass through the choice of experts). Sequences attend among themselves only
/// (no KV cache), and to texts that were remembered since the last backward(). Layers whose scheme
/// rounds activations compute as they do when the model runs (CpuOps::prepare must have seen them);
/// gradients pass through that rounding (rounded_input.h). One caller at a time.
class GradientOps {
 public:
  using Matrix = Variable;
  using Input = Variable;
  using Cache = cpu::KvCache;

  /// Sees every linear call on the way back: its input x [m, k], rounded where the layer rounds it,
  /// and the gradient of its output [m, n].
  using Observer =
      std::function<void(const LinearSet&, const cpu::Matrix& x, const cpu::Matrix& gradient)>;

  /// `ops` computes the values; it must be in float (ActivationPrecision::kFloat) and outlive this.
  explicit GradientOps(cpu::CpuOps& ops) : ops_(ops) {}

  void set_observer(Observer observer) { observer_ = std::move(observer); }

  /// backward() adds to them from here on; null: there are none. They must outlive that.
  void set_parameters(const ParameterGradients* parameters) { parameters_ = parameters; }

  /// From now on the scores of all attention are kept: scores().
  void keep_scores() { keeps_scores_ = true; }
  /// One for each call of attention() and attend() since the last backward() or forget(): the
  /// scores q . k of all heads, scaled, capped and before the softmax, as one row
  /// (attention_scores.h).
  std::span<const Variable> scores() const { return scores_; }

  /// A matrix that the pass starts from.
  Variable variable(cpu::Matrix value) { return result(std::move(value)); }

  /// Passes `gradient`, that of the loss with respect to `from`, back through all calls since the
  /// last backward() and forgets them.
  void backward(const Variable& from, cpu::Matrix gradient);

  /// The same of a loss that depends on several matrices: each gets its own slope first, added to
  /// what it has.
  void add_gradient(const Variable& at, const cpu::Matrix& gradient);
  void backward();
  /// Forgets all calls since the last backward(): nothing is passed back.
  void forget();

  Variable embed(const core::Tensor& table, std::span<const std::int32_t> ids);
  void add_rows(Variable& x, const core::Tensor& table, std::span<const std::int32_t> ids,
                std::int64_t offset);
  Variable norm(const Variable& x, const Norm& norm, const LinearSet& set);
  Variable add_norm(Variable& x, const Variable& delta, const Norm& norm, const LinearSet& set);
  Variable post_norm(Variable& x, const Variable& delta, const Norm& norm, const LinearSet& set);
  Variable norm_matrix(const Variable& x, const Norm& norm);
  void add(Variable& x, const Variable& delta);
  /// Refuses sets with anything but plain weights (linear_gradient.h).
  Variable linear(const Variable& input, const LinearSet& set);
  /// Nothing is fused.
  std::optional<Variable> linear(const Variable& input, const LinearSet& set,
                                 const Residual<Variable>&) {
    return linear(input, set);
  }
  Variable linear(const Variable& input, const LinearSet& set, const ActivateInto& into) {
    return into.gated ? gated_activation(linear(input, set), into.activation, into.next)
                      : mlp_activation(linear(input, set), into.activation, into.next);
  }
  Variable attention(const Variable& qkv, const AttentionSpec& spec, std::int64_t layer,
                     const Batch<cpu::KvCache>& batch, const LinearSet& set);
  void activate(Variable& x, MlpActivation activation);
  void scale(Variable& x, float factor);
  Variable widened(Variable x) { return x; }
  void remember(const Variable& kv, const AttentionSpec& spec, std::int64_t layer,
                const Batch<cpu::KvCache>& batch);
  Variable attend(const Variable& q, const AttentionSpec& spec, std::int64_t layer,
                  const Batch<cpu::KvCache>& batch, const LinearSet& set);
  Variable mlp_activation(const Variable& x, MlpActivation activation, const LinearSet& set);
  Variable gated_activation(const Variable& gate_up, MlpActivation activation,
                            const LinearSet& set);
  Variable input(const Variable& x, const LinearSet&) { return x; }
  std::vector<ExpertRows> route(const Variable& logits, const RoutingSpec& spec);
  Variable gather(const Variable& x, std::span<const std::int32_t> rows);
  void scatter_add(Variable& sum, const Variable& x, const ExpertRows& expert);
  Variable zeros(std::int64_t rows, std::int64_t columns);

 private:
  using Node = std::shared_ptr<Variable::Node>;

  Variable result(cpu::Matrix value);
  // The gradient of a node, zeros at first.
  cpu::Matrix& gradient_of(Variable::Node& node);
  // `back` runs when the gradient of `output` is complete; never when the loss doesn't depend on
  // it.
  void record(const Variable& output, std::function<void(const cpu::Matrix& gradient)> back);

  // Null where scores are not kept.
  Node keep_scores_of(const AttentionSpec& spec, std::span<const TextRows> texts,
                      const ScoredHeads& heads);
  // A loss may depend on the scores and not on the output; what attention passes back needs the
  // gradient of that.
  void record_scores(const Node& scores, const Variable& output);
  // What the loss asks of them; null: nothing.
  static const cpu::Matrix* slope_of(const Node& scores);
  // y = activation(x), computed already.
  void record_activation(const Variable& x, const Variable& y, MlpActivation activation);
  // A text of a batch whose keys and values were remembered.
  struct Remembered {
    Node kv;
    RowRange rows;
  };
  const Remembered& remembered(const cpu::KvCache* memory, std::int64_t layer) const;

  cpu::CpuOps& ops_;
  Observer observer_;
  bool keeps_scores_ = false;
  std::vector<Variable> scores_;
  const ParameterGradients* parameters_ = nullptr;
  std::map<std::pair<const cpu::KvCache*, std::int64_t>, Remembered> remembered_;  // and the layer
  struct Step {
    Node output;
    std::function<void(const cpu::Matrix&)> back;
  };
  std::vector<Step> tape_;
};

}  // namespace nibble::ops::gradient
