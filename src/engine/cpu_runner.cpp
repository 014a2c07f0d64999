#include <algorithm>
#include <deque>
#include <numeric>
#include <optional>

#include "core/memory.h"
#include "engine/cpu_layers.h"
#include "engine/cpu_limits.h"
#include "engine/divided_runner.h"
#include "engine/runner.h"
#include "engine/step_tokens.h"
#include "models/forward.h"
#include "models/shard.h"
#include "ops/cpu/attention/attention.h"
#include "ops/cpu/divided_ops.h"

namespace nibble::engine {
namespace {

using ops::cpu::DividedOps;
using ops::cpu::KvCache;
using ops::cpu::KvPool;
using ops::cpu::Matrix;

constexpr std::size_t kScoreRows = 256;  // rows of logits that exist at a time when scoring
constexpr double kPoolShare = 0.8;       // of the memory that is free

// With a communicator, one rank of those that run a model together.
class CpuRunner final : public Runner {
 public:
  CpuRunner(std::shared_ptr<const models::Model> model, const RunnerOptions& options,
            const std::shared_ptr<ranks::Communicator>& communicator = nullptr)
      : model_(std::move(model)),
        kv_types_(options.kv_types),
        leads_(communicator == nullptr || communicator->rank() == 0),
        ops_(options.cpu, communicator,
             models::division_of(network(), shard_of(communicator.get()))),
        layers_(*model_, options, ops_),
        step_(network().config.vocabulary) {}

  void make_pages(std::int64_t count) override {
    const models::NetworkConfig& config = network().config;
    kv_.reset();
    kv_ = std::make_unique<KvPool>(kv_types_, config.layers, kv_heads(), config.head_dim, count);
    used_pages_ = 0;
  }

  std::int64_t pages() const override { return kv_ ? kv_->pages() : 0; }

  std::int64_t page_bytes() const override {
    const models::NetworkConfig& config = network().config;
    return KvPool::page_bytes(kv_types_, config.layers, kv_heads(), config.head_dim);
  }

  std::int64_t room_for_pages() const override {
    const auto free = static_cast<double>(core::available_memory_bytes());
    return static_cast<std::int64_t>(free * kPoolShare) / page_bytes();
  }

  bool rows_are_independent() const override { return true; }

  bool prompts_are_alike() const override { return !ops::cpu::has_attention_of_prompts(kv_types_); }

  LogitsView forward(std::span<const Slice> slices) override {
    begin();
    for (const Slice& slice : slices) {
      append(slice);
    }
    const std::span<const std::int32_t> rows = step_.logit_rows();
    const models::Batch<DividedOps> batch{step_.tokens(), step_.positions(), parts_};
    const Matrix hidden = models::hidden_states(ops_, network(), batch);
    logits_ = rows.empty() ? Matrix() : models::logits(ops_, network(), ops_.gather(hidden, rows));
    layers_.check_intact();
    return view(logits_);
  }

  void forward_ranked(std::span<const Slice> slices, std::int64_t count,
                      std::vector<ops::RankedToken>& ranked) override {
    if (leads_) {
      Runner::forward_ranked(slices, count, ranked);
    } else {
      forward(slices);
    }
  }

  std::vector<float> hidden_sum(const Slice& slice) override {
    begin();
    append(slice);
    const models::Batch<DividedOps> batch{step_.tokens(), step_.positions(), parts_};
    const Matrix hidden =
        models::final_states(ops_, network(), models::hidden_states(ops_, network(), batch));
    layers_.check_intact();
    return sum_of_rows(view(hidden));
  }

  void score_texts(std::span<const ScoredText> texts, const ConsumeLogits& consume) override {
    step_.clear();
    std::vector<ops::SequenceSlice<KvCache>> parts;
    std::vector<std::int32_t> wanted;
    std::vector<std::unique_ptr<KvCache>> caches;  // what rounding in the cache does is part of it
    std::int64_t cache_bytes = 0;
    for (const ScoredText& text : texts) {
      const auto first = step_.size();
      const auto rows = static_cast<std::int64_t>(text.tokens.size());
      if (kv_types_ != ops::KvType::kF32) {
        caches.push_back(make_cache(rows));
        cache_bytes += kv_bytes(rows);
      }
      parts.push_back({.cache = caches.empty() ? nullptr : caches.back().get(),
                       .row = first,
                       .rows = rows,
                       .prompt_rows = rows});
      step_.append(text.tokens, 0);
      for (std::int64_t row = text.first_row; row < rows; ++row) {
        wanted.push_back(static_cast<std::int32_t>(first + row));
      }
    }
    peak_cache_bytes_ = std::max(peak_cache_bytes_, used_pages_ * page_bytes() + cache_bytes);
    const models::Batch<DividedOps> batch{step_.tokens(), step_.positions(), parts};
    const Matrix hidden = models::hidden_states(ops_, network(), batch);
    for (std::size_t begin = 0; begin < wanted.size(); begin += kScoreRows) {
      const auto chunk =
          std::span(wanted).subspan(begin, std::min(kScoreRows, wanted.size() - begin));
      const Matrix part = ops_.gather(hidden, chunk);
      const Matrix logits = models::logits(ops_, network(), part);
      layers_.check_intact();
      consume(static_cast<std::int64_t>(begin), view(logits));
    }
  }

  core::ThreadPool& pool() override { return ops_.pool(); }

  DeviceLimits measure_limits() override { return measure_cpu_limits(ops_.pool()); }

  std::int64_t peak_bytes() const override {
    return ops_.prepared_bytes() + dense_bytes() + peak_cache_bytes_ + ops_.peak_activation_bytes();
  }

  std::int64_t bytes_per_token() const override { return weight_bytes_per_token(network()); }

 private:
  const models::Network& network() const { return model_->network; }

  // Those whose keys and values are kept here.
  std::int64_t kv_heads() const { return network().decoder.blocks.front().attention.spec.kv_heads; }

  void begin() {
    step_.clear();
    caches_.clear();
    parts_.clear();
  }

  void append(const Slice& slice) {
    core::require(kv_ != nullptr, core::ErrorKind::kFailed, "the KV cache was not made");
    const std::int64_t rows = std::ssize(slice.tokens);
    caches_.emplace_back(*kv_, slice.pages);
    parts_.push_back({.cache = &caches_.back(),
                      .position = slice.position,
                      .row = step_.size(),
                      .rows = rows,
                      .prompt_rows = slice.prompt_tokens});
    step_.append(slice);
    const auto used =
        slice.pages.first(static_cast<std::size_t>(ops::pages_for(slice.position + rows)));
    used_pages_ =
        std::max<std::int64_t>(used_pages_, 1 + *std::max_element(used.begin(), used.end()));
    peak_cache_bytes_ = std::max(peak_cache_bytes_, used_pages_ * page_bytes());
  }

  std::unique_ptr<KvCache> make_cache(std::int64_t capacity) const {
    const models::NetworkConfig& config = network().config;
    return std::make_unique<KvCache>(kv_types_, config.layers, kv_heads(), config.head_dim,
                                     capacity);
  }

  // Embeddings, and the layers that run from the file's own bytes.
  std::int64_t dense_bytes() const {
    const models::Network& model = network();
    std::int64_t bytes = model.embeddings.tokens.bytes() + model.embeddings.positions.bytes();
    for (const ops::LinearSet* set : models::linear_sets(model)) {
      bytes += set == &model.output && model.config.tied_output ? 0 : ops_.unprepared_bytes(*set);
    }
    return bytes;
  }

  static LogitsView view(const Matrix& logits) {
    return {logits.values(), logits.rows(), logits.columns()};
  }

  std::shared_ptr<const models::Model> model_;
  ops::KvTypes kv_types_;
  bool leads_;  // other ranks see no logits of the whole vocabulary
  DividedOps ops_;
  CpuLayers layers_;
  std::unique_ptr<KvPool> kv_;
  std::int64_t used_pages_ = 0;  // those up to the last one that was written to
  std::int64_t peak_cache_bytes_ = 0;
  StepTokens step_;
  std::deque<KvCache> caches_;  // of the step's slices
  std::vector<ops::SequenceSlice<KvCache>> parts_;
  Matrix logits_;
};

}  // namespace

std::unique_ptr<Runner> make_cpu_runner(std::shared_ptr<const models::Model> model,
                                        const RunnerOptions& options) {
  return std::make_unique<CpuRunner>(std::move(model), options);
}

std::unique_ptr<Runner> make_cpu_rank_runner(
    std::shared_ptr<const models::Model> model, const RunnerOptions& options,
    const std::shared_ptr<ranks::Communicator>& communicator) {
  return std::make_unique<CpuRunner>(std::move(model), options, communicator);
}

}  // namespace nibble::engine
