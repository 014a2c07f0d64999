#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "ops/gradient/attention_scores.h"
#include "ops/gradient/cpu_operators.h"
#include "ops/ops.h"

namespace nibble::ops::gradient {

using Variable = VariableOf<cpu::Matrix>;

/// What GradientOps computes with; a base, because the tape needs it first.
struct OwnCpuOperators {
  CpuOperators operators;
};

/// A GradientTape on a CPU, with what encoders need beside it: the scores of attention, and
/// attention to texts that were remembered since the last backward().
class GradientOps : private OwnCpuOperators, public GradientTape<CpuOperators> {
 public:
  /// `ops` computes the values; it must be in float (ActivationPrecision::kFloat) and outlive this.
  explicit GradientOps(cpu::CpuOps& ops)
      : OwnCpuOperators{CpuOperators(ops)}, GradientTape(operators), ops_(ops) {}
  GradientOps(const GradientOps&) = delete;
  GradientOps& operator=(const GradientOps&) = delete;

  /// From now on the scores of all attention are kept: scores().
  void keep_scores() { keeps_scores_ = true; }
  /// One for each call of attention() and attend() since the last backward() or forget(): the
  /// scores q . k of all heads, scaled, capped and before the softmax, as one row
  /// (attention_scores.h).
  std::span<const Variable> scores() const { return scores_; }

  void backward(const Variable& from, cpu::Matrix gradient) {
    GradientTape::backward(from, std::move(gradient));
    forget();
  }
  void backward() {
    GradientTape::backward();
    forget();
  }
  void forget();

  Variable attention(const Variable& qkv, const AttentionSpec& spec, std::int64_t layer,
                     const Batch<cpu::KvCache>& batch, const LinearSet& set);
  void remember(const Variable& kv, const AttentionSpec& spec, std::int64_t layer,
                const Batch<cpu::KvCache>& batch);
  Variable attend(const Variable& q, const AttentionSpec& spec, std::int64_t layer,
                  const Batch<cpu::KvCache>& batch, const LinearSet& set);

 private:
  // Those of the heads as they are multiplied.
  Variable scores_of(const AttentionSpec& spec, std::span<const TextRows> texts,
                     const ScoredHeads& heads);
  // A loss may depend on the scores and not on the output; what attention passes back needs the
  // gradient of that.
  void record_scores(const Variable& scores, const Variable& output);
  // A text of a batch whose keys and values were remembered.
  struct Remembered {
    Node kv;
    RowRange rows;
  };
  const Remembered& remembered(const cpu::KvCache* memory, std::int64_t layer) const;

  cpu::CpuOps& ops_;
  bool keeps_scores_ = false;
  std::vector<Variable> scores_;
  std::map<std::pair<const cpu::KvCache*, std::int64_t>, Remembered> remembered_;  // and the layer
};

}  // namespace nibble::ops::gradient
