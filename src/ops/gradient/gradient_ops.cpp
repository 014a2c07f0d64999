#include "ops/gradient/gradient_ops.h"

#include <memory>
#include <optional>

#include "core/error.h"

namespace nibble::ops::gradient {

void GradientOps::forget() {
  GradientTape::forget();
  remembered_.clear();
  scores_.clear();
}

Variable GradientOps::attention(const Variable& qkv, const AttentionSpec& spec, std::int64_t,
                                const Batch<cpu::KvCache>& batch, const LinearSet& set) {
  const auto seen = std::make_shared<CpuOperators::Attended>();
  const Variable y = GradientTape::attention(qkv, spec, batch, set, seen);
  if (keeps_scores_) {
    seen->scores = scores_of(spec, reading_themselves(seen->sequences),
                             {seen->turned, seen->turned, spec.heads * spec.head_dim});
    record_scores(*seen->scores, y);
  }
  return y;
}

Variable GradientOps::scores_of(const AttentionSpec& spec, std::span<const TextRows> texts,
                                const ScoredHeads& heads) {
  const Variable scores = result(ops_.zeros(1, first_scores_of(spec, texts).back()));
  compute_scores(spec, texts, heads, scores.node_->value, ops_.pool());
  return scores_.emplace_back(scores);
}

void GradientOps::record_scores(const Variable& scores, const Variable& output) {
  record(scores, [this, to = output.node_](const cpu::Matrix&) { gradient_of(*to); });
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
  const Variable y = result(ops_.copy(ops_.attend(q.value(), spec, layer, batch, set).values()));
  std::vector<TextRows> texts;
  Node kv;
  for (const auto& slice : batch.slices) {
    const Remembered& read = remembered(slice.memory, layer);
    core::require(kv == nullptr || kv == read.kv, core::ErrorKind::kFailed,
                  "the texts of a batch were remembered one by one");
    kv = read.kv;
    texts.push_back({{slice.row, slice.rows}, read.rows});
  }
  std::optional<Variable> scores;
  if (keeps_scores_) {
    scores = scores_of(spec, texts, {q.value(), kv->value});
  }
  record(y, [this, &spec, texts, kv, from = q.node_, to = y.node_.get(),
             scores](const cpu::Matrix& g) {
    add_memory_gradient({spec, texts, from->value, kv->value, to->value, slope_of(scores)}, g,
                        gradient_of(*from), gradient_of(*kv), ops_.pool());
  });
  if (scores) {
    record_scores(*scores, y);
  }
  return y;
}

static_assert(EncoderOps<GradientOps>);

}  // namespace nibble::ops::gradient
