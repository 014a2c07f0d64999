#include "engine/cpu_text_to_text.h"

#include <deque>

#include "engine/cpu_layers.h"
#include "engine/encoder_batch.h"
#include "models/encoder_forward.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::engine {
namespace {

using ops::cpu::CpuOps;
using ops::cpu::KvCache;
using ops::cpu::KvPool;
using ops::cpu::Matrix;

class CpuTextToText final : public TextToText {
 public:
  CpuTextToText(std::shared_ptr<const models::Model> model, const RunnerOptions& options)
      : TextToText(std::move(model)),
        ops_(options.cpu),
        layers_(this->model(), options, ops_),
        batch_(network()),
        branches_(0) {}

  using TextToText::read;

  core::ThreadPool& pool() override { return ops_.pool(); }

  void read(std::span<const std::span<const std::int32_t>> texts,
            const WritingRoom& room) override {
    batch_.clear();
    for (const auto& text : texts) {
      batch_.append({text, {}});
    }
    make_caches(room);
    std::vector<ops::SequenceSlice<KvCache>> slices;
    for (std::size_t i = 0; i < memories_.size(); ++i) {
      slices.push_back({.row = batch_.firsts()[i],
                        .rows = memory_rows(i),
                        .memory = memories_[i].get(),
                        .memory_rows = memory_rows(i),
                        .prompt_rows = memory_rows(i)});
    }
    const models::Batch<CpuOps> batch{batch_.tokens(), batch_.positions(), slices, batch_.types()};
    const Matrix states = models::encode(ops_, network(), batch);
    models::remember(ops_, network(), batch, states);
    layers_.check_intact();
  }

  LogitsView step(std::span<const DecoderRow> rows) override {
    for (const Branches::Copy& copy : advance(branches_, rows, std::ssize(memories_))) {
      written_->copy(copy.from, copy.to);
    }
    StepTokens step(network().config.vocabulary);
    std::deque<KvCache> caches;
    std::vector<ops::SequenceSlice<KvCache>> slices;
    for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
      const DecoderRow& row = rows[static_cast<std::size_t>(i)];
      const auto text = static_cast<std::size_t>(row.text);
      const std::int64_t position = branches_.position(i);
      step.append({&row.token, 1}, position);
      caches.emplace_back(*written_, branches_.pages(i));
      slices.push_back({&caches.back(), position, i, 1, memories_[text].get(), memory_rows(text)});
    }
    const models::Batch<CpuOps> batch{step.tokens(), step.positions(), slices};
    logits_ = models::logits(ops_, network(), models::hidden_states(ops_, network(), batch));
    layers_.check_intact();
    return {logits_.values(), logits_.rows(), logits_.columns()};
  }

  EncoderRows score(std::span<const std::int32_t> source,
                    std::span<const std::int32_t> target) override {
    const StepTokens step = tokens_before(target);
    read(source);
    const ops::SequenceSlice<KvCache> slice{
        nullptr, 0, 0, step.size(), memories_.front().get(), memory_rows(0)};
    const models::Batch<CpuOps> batch{step.tokens(), step.positions(), {&slice, 1}};
    const Matrix logits =
        models::logits(ops_, network(), models::hidden_states(ops_, network(), batch));
    layers_.check_intact();
    return {{logits.values().begin(), logits.values().end()}, logits.rows(), logits.columns()};
  }

 private:
  std::int64_t memory_rows(std::size_t text) const {
    return batch_.rows_of(static_cast<std::int64_t>(text));
  }

  // For the texts of the batch.
  void make_caches(const WritingRoom& room) {
    const models::NetworkConfig& config = network().config;
    memories_.clear();
    for (std::size_t i = 0; i < batch_.firsts().size(); ++i) {
      memories_.push_back(std::make_unique<KvCache>(
          ops::KvType::kF32, config.layers, config.kv_heads, config.head_dim, memory_rows(i)));
    }
    const std::int64_t tokens = room.tokens > 0 ? room.tokens : config.max_positions;
    const std::int64_t pages = room.rows * ops::pages_for(tokens);
    written_.reset();
    written_ = std::make_unique<KvPool>(ops::KvType::kF32, config.layers, config.kv_heads,
                                        config.head_dim, pages);
    branches_ = Branches(pages);
  }

  CpuOps ops_;
  CpuLayers layers_;
  EncoderBatch batch_;                              // the texts that were read
  std::vector<std::unique_ptr<KvCache>> memories_;  // their keys and values
  std::unique_ptr<KvPool> written_;                 // those of what was written
  Branches branches_;                               // whose pages these are
  Matrix logits_;
};

}  // namespace

std::unique_ptr<TextToText> make_cpu_text_to_text(std::shared_ptr<const models::Model> model,
                                                  const RunnerOptions& options) {
  return std::make_unique<CpuTextToText>(std::move(model), options);
}

}  // namespace nibble::engine
