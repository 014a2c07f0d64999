#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "engine/runner.h"
#include "engine/step_tokens.h"
#include "engine/tile_file.h"
#include "models/forward.h"
#include "ops/cpu/limits/machine_limits.h"

namespace nibble::engine {
namespace {

using ops::cpu::CpuOps;
using ops::cpu::KvCache;
using ops::cpu::Matrix;

constexpr std::size_t kScoreRows = 256;  // rows of logits that exist at a time when scoring

struct Sequence {
  std::unique_ptr<KvCache> cache;
  std::int64_t length = 0;
};

class CpuRunner final : public Runner {
 public:
  CpuRunner(std::shared_ptr<const models::Model> model, const RunnerOptions& options)
      : model_(std::move(model)),
        kv_types_(options.kv_types),
        ops_(options.cpu),
        step_(decoder().config.vocabulary) {
    if (!options.tile_file.empty()) {
      tile_file_ = TileFile::open(options.tile_file, *model_, ops_.pool());
    }
    for (const models::Block& block : decoder().blocks) {
      for (const ops::LinearSet* set : models::linear_sets(block)) {
        prepare(*set);
      }
    }
    prepare(decoder().output);
  }

  SequenceId open_sequence(std::int64_t capacity) override {
    Sequence sequence;
    sequence.cache = make_cache(capacity);
    cache_bytes_ += kv_bytes(capacity);
    peak_cache_bytes_ = std::max(peak_cache_bytes_, cache_bytes_);
    sequences_.emplace(++last_id_, std::move(sequence));
    return last_id_;
  }

  void close_sequence(SequenceId id) override {
    const auto at = sequences_.find(id);
    if (at != sequences_.end()) {
      cache_bytes_ -= kv_bytes(at->second.cache->capacity());
      sequences_.erase(at);
    }
  }

  std::int64_t length(SequenceId id) const override { return sequences_.at(id).length; }

  LogitsView forward(std::span<const Slice> slices) override {
    step_.clear();
    std::vector<ops::SequenceSlice<KvCache>> parts;
    std::vector<std::int32_t> last_rows;
    for (const Slice& slice : slices) {
      Sequence& sequence = sequences_.at(slice.sequence);
      const auto rows = static_cast<std::int64_t>(slice.tokens.size());
      StepTokens::require_room(sequence.length, rows, sequence.cache->capacity());
      parts.push_back({sequence.cache.get(), sequence.length, step_.size(), rows});
      step_.append(slice.tokens, sequence.length);
      last_rows.push_back(static_cast<std::int32_t>(step_.size()) - 1);
    }
    const models::Batch<CpuOps> batch{step_.tokens(), step_.positions(), parts};
    logits_ = models::forward(ops_, decoder(), batch, last_rows);
    check_intact();
    for (const Slice& slice : slices) {
      sequences_.at(slice.sequence).length += static_cast<std::int64_t>(slice.tokens.size());
    }
    return view(logits_);
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
      if (kv_types_ != ops::cpu::KvType::kF32) {
        caches.push_back(make_cache(rows));
        cache_bytes += kv_bytes(rows);
      }
      parts.push_back({caches.empty() ? nullptr : caches.back().get(), 0, first, rows});
      step_.append(text.tokens, 0);
      for (std::int64_t row = text.first_row; row < rows; ++row) {
        wanted.push_back(static_cast<std::int32_t>(first + row));
      }
    }
    peak_cache_bytes_ = std::max(peak_cache_bytes_, cache_bytes_ + cache_bytes);
    const models::Batch<CpuOps> batch{step_.tokens(), step_.positions(), parts};
    const Matrix hidden = models::hidden_states(ops_, decoder(), batch);
    for (std::size_t begin = 0; begin < wanted.size(); begin += kScoreRows) {
      const auto chunk =
          std::span(wanted).subspan(begin, std::min(kScoreRows, wanted.size() - begin));
      const Matrix part = ops_.gather(hidden, chunk);
      const Matrix logits = models::logits(ops_, decoder(), part);
      check_intact();
      consume(static_cast<std::int64_t>(begin), view(logits));
    }
  }

  core::ThreadPool& pool() override { return ops_.pool(); }

  DeviceLimits measure_limits() override {
    const ops::cpu::MachineLimits limits = ops::cpu::measure_machine_limits(ops_.pool());
    return {fmt::format("cpu, {} threads", ops_.pool().size()), limits.read_bytes_per_second,
            limits.multiply_adds_per_second};
  }

  std::int64_t kv_bytes(std::int64_t tokens) const override {
    const models::DecoderConfig& config = decoder().config;
    return KvCache::bytes(kv_types_, config.layers, config.kv_heads, config.head_dim, tokens);
  }

  std::int64_t peak_bytes() const override {
    return ops_.prepared_bytes() + dense_bytes() + peak_cache_bytes_ + ops_.peak_activation_bytes();
  }

  std::int64_t bytes_per_token() const override { return weight_bytes_per_token(decoder()); }

 private:
  const models::Decoder& decoder() const { return model_->decoder; }

  // What was read to make a layout is given back at once: the file and its layouts are never in
  // memory both.
  void prepare(const ops::LinearSet& set) {
    if (tile_file_) {
      ops_.prepare(set, [this](const ops::Linear& layer) { return tile_file_->layout(layer); });
    } else {
      ops_.prepare(set);
    }
    for (const ops::Linear& part : set.parts) {
      models::release_pages(*model_, part);
    }
  }

  // Bytes that are gone read as zeros (io/mapped_file.h), and so would the results be wrong.
  void check_intact() const {
    if (tile_file_) {
      tile_file_->check_intact();
    }
    if (model_->source) {
      model_->source->check_intact();
    }
  }

  std::unique_ptr<KvCache> make_cache(std::int64_t capacity) const {
    const models::DecoderConfig& config = decoder().config;
    return std::make_unique<KvCache>(kv_types_, config.layers, config.kv_heads, config.head_dim,
                                     capacity);
  }

  // Embeddings, and the layers that run from the file's own bytes.
  std::int64_t dense_bytes() const {
    const models::Decoder& model = decoder();
    std::int64_t bytes = model.embedding.bytes() + model.positions.bytes();
    if (!model.config.tied_output) {
      bytes += ops_.unprepared_bytes(model.output);
    }
    for (const models::Block& block : model.blocks) {
      for (const ops::LinearSet* set : models::linear_sets(block)) {
        bytes += ops_.unprepared_bytes(*set);
      }
    }
    return bytes;
  }

  static LogitsView view(const Matrix& logits) {
    return {logits.values(), logits.rows(), logits.columns()};
  }

  std::shared_ptr<const models::Model> model_;
  ops::cpu::KvTypes kv_types_;
  CpuOps ops_;
  std::shared_ptr<const TileFile> tile_file_;  // null: layouts are made
  std::map<SequenceId, Sequence> sequences_;
  SequenceId last_id_ = 0;
  std::int64_t cache_bytes_ = 0;
  std::int64_t peak_cache_bytes_ = 0;
  StepTokens step_;
  Matrix logits_;
};

}  // namespace

std::unique_ptr<Runner> make_cpu_runner(std::shared_ptr<const models::Model> model,
                                        const RunnerOptions& options) {
  return std::make_unique<CpuRunner>(std::move(model), options);
}

}  // namespace nibble::engine
