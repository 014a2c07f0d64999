#include <algorithm>
#include <map>
#include <numeric>

#include "core/cpu_topology.h"
#include "device/cuda/check.h"
#include "device/cuda/graph.h"
#include "device/cuda/memory.h"
#include "engine/runner.h"
#include "engine/step_tokens.h"
#include "models/forward.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/limits/multiply_add_rate.h"
#include "ops/cuda/limits/read_bandwidth.h"

namespace nibble::engine {
namespace {

using core::ErrorKind;
using ops::cuda::CudaOps;
using ops::cuda::DeviceMatrix;
using ops::cuda::KvPool;
using ops::cuda::KvSequence;

constexpr std::int64_t kScoreRows = 256;  // rows of logits that exist at a time when scoring
constexpr std::int64_t kPoolSequences =
    64;                                  // of full length that the pool has room for at the most
constexpr double kRoomForWeights = 0.9;  // of the memory, the rest for the KV cache
constexpr double kPoolShare = 0.8;       // of the memory that is free when weights are loaded

struct Sequence {
  KvSequence cache;
  std::int64_t capacity = 0;
  std::int64_t length = 0;
};

/// A recorded decode step of so many sequences, with where it leaves its logits.
struct DecodeStep {
  device::cuda::Graph graph;
  DeviceMatrix logits;
};

class CudaRunner final : public Runner {
 public:
  CudaRunner(std::shared_ptr<const models::Model> model, const RunnerOptions& options)
      : model_(std::move(model)),
        kv_types_(options.kv_types),
        host_pool_(options.cpu.threads > 0 ? options.cpu.threads : core::available_cores()),
        ops_({}),
        step_(config().vocabulary) {
    core::require(config().routing.experts == 0, ErrorKind::kUsage,
                  "mixtures of experts do not run on a GPU yet; use --device cpu");
    require_room();
    for (const models::Block& block : decoder().blocks) {
      for (const ops::LinearSet* set : models::linear_sets(block)) {
        prepare(*set);
      }
      const std::int64_t window = block.attention.spec.window;
      if (std::find(windows_.begin(), windows_.end(), window) == windows_.end()) {
        windows_.push_back(window);
      }
    }
    prepare(decoder().output);
    make_pool();
  }

  SequenceId open_sequence(std::int64_t capacity) override {
    Sequence sequence{KvSequence(ops_.pool()), capacity, 0};
    sequence.cache.reserve(capacity);
    sequences_.emplace(++last_id_, std::move(sequence));
    return last_id_;
  }

  void close_sequence(SequenceId id) override { sequences_.erase(id); }

  std::int64_t length(SequenceId id) const override { return sequences_.at(id).length; }

  LogitsView forward(std::span<const Slice> slices) override {
    begin();
    std::vector<std::int32_t> last_rows;
    for (const Slice& slice : slices) {
      Sequence& sequence = sequences_.at(slice.sequence);
      const auto rows = static_cast<std::int64_t>(slice.tokens.size());
      StepTokens::require_room(sequence.length, rows, sequence.capacity);
      append(slice.tokens, sequence.length, sequence.cache);
      last_rows.push_back(static_cast<std::int32_t>(step_.size()) - 1);
    }
    const LogitsView logits = run(last_rows);
    for (const Slice& slice : slices) {
      sequences_.at(slice.sequence).length += static_cast<std::int64_t>(slice.tokens.size());
    }
    return logits;
  }

  void score_texts(std::span<const ScoredText> texts, const ConsumeLogits& consume) override {
    std::int64_t scored = 0;
    for (const ScoredText& text : texts) {  // each alone: a step has a bounded number of tokens
      scored += score_text(text, scored, consume);
    }
  }

  core::ThreadPool& pool() override { return host_pool_; }

  DeviceLimits measure_limits() override {
    return {ops_.device().name, ops::cuda::measure_read_bandwidth(),
            ops::cuda::measure_multiply_add_rate()};
  }

  std::int64_t kv_bytes(std::int64_t tokens) const override {
    const ops::cuda::KvLayout layout = kv_layout();
    const std::int64_t pages = (tokens + ops::cuda::kPageTokens - 1) / ops::cuda::kPageTokens;
    return config().layers * pages * layout.page_bytes();
  }

  std::int64_t peak_bytes() const override {
    return ops_.prepared_bytes() + ops_.peak_activation_bytes() + kv_bytes_;
  }

  std::int64_t bytes_per_token() const override { return weight_bytes_per_token(decoder()); }

 private:
  const models::Decoder& decoder() const { return model_->decoder; }
  const models::DecoderConfig& config() const { return decoder().config; }

  // Says what would fit before anything is uploaded.
  void require_room() const {
    const auto need = static_cast<double>(models::total_weight_bytes(decoder()));
    const auto free = static_cast<double>(ops_.device().free_bytes);
    auto weights = static_cast<double>(decoder().embedding.elements());
    for (const models::Block& block : decoder().blocks) {
      for (const ops::LinearSet* set : models::linear_sets(block)) {
        weights += static_cast<double>(set->n() * set->k());
      }
    }
    core::require(
        need < free, ErrorKind::kOutOfMemory,
        "the weights need {:.2f} GB and the {} has {:.2f} GB free, enough for {:.1f} bits "
        "per weight; quantize the model to fewer bits, or use --device cpu",
        need / 1e9, ops_.device().name, free / 1e9, kRoomForWeights * 8 * free / weights);
  }

  void prepare(const ops::LinearSet& set) {
    ops_.prepare(set, host_pool_);
    for (const ops::Linear& part : set.parts) {
      models::release_pages(*model_, part);
    }
    if (model_->source) {
      model_->source->check_intact();
    }
  }

  ops::cuda::KvLayout kv_layout() const {
    return {kv_types_, config().kv_heads, config().head_dim};
  }

  void make_pool() {
    std::size_t free = 0;
    std::size_t total = 0;
    device::cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    const std::int64_t page = kv_bytes(1);
    const std::int64_t most = kPoolSequences * ((config().max_positions + ops::cuda::kPageTokens) /
                                                ops::cuda::kPageTokens);
    const auto fitting = static_cast<std::int64_t>(static_cast<double>(free) * kPoolShare) / page;
    core::require(fitting > 0, ErrorKind::kOutOfMemory,
                  "the GPU has {:.2f} GB free beside the weights, too little for a KV cache",
                  static_cast<double>(free) / 1e9);
    const std::int64_t pages = std::min(most, fitting);
    ops_.set_pool(std::make_unique<KvPool>(kv_layout(), config().layers, pages));
    kv_bytes_ = pages * page;
  }

  void begin() {
    step_.clear();
    parts_.clear();
  }

  void append(std::span<const std::int32_t> tokens, std::int64_t position, KvSequence& cache) {
    const auto rows = static_cast<std::int64_t>(tokens.size());
    parts_.push_back({&cache, position, step_.size(), rows});
    step_.append(tokens, position);
  }

  // Puts the step's numbers on the device; the batch to give to operators, and its rows.
  std::pair<models::Batch<CudaOps>, std::span<const std::int32_t>> begin_step(
      std::span<const std::int32_t> rows) {
    const models::Batch<CudaOps> batch{step_.tokens(), step_.positions(), parts_};
    const CudaOps::Step step =
        ops_.begin_step(batch, rows, windows_, config().heads / config().kv_heads);
    return {{step.tokens, step.positions, parts_}, step.rows};
  }

  // Logits of some rows of the batch. A step in which every sequence has one token is recorded when
  // it comes for the second time.
  LogitsView run(std::span<const std::int32_t> rows) {
    const auto [batch, step_rows] = begin_step(rows);
    const auto m = step_.size();
    const bool decode = m == static_cast<std::int64_t>(parts_.size());
    const std::pair<std::int64_t, bool> kind{m, ops_.splits()};
    if (!decode || !seen_.contains(kind)) {
      if (decode) {
        seen_.insert({kind, DecodeStep{}});
      }
      const DeviceMatrix logits = models::forward(ops_, decoder(), batch, step_rows);
      return download(logits);
    }
    DecodeStep& step = seen_.at(kind);
    if (step.graph.empty()) {
      step.graph =
          device::cuda::Graph::record(ops_.stream(), [&, &batch = batch, &step_rows = step_rows] {
            step.logits = models::forward(ops_, decoder(), batch, step_rows);
          });
    }
    step.graph.launch(ops_.stream());
    return download(step.logits);
  }

  std::int64_t score_text(const ScoredText& text, std::int64_t first,
                          const ConsumeLogits& consume) {
    begin();
    const auto count = static_cast<std::int64_t>(text.tokens.size());
    KvSequence cache(ops_.pool());  // what rounding in the cache does is part of it
    cache.reserve(count);
    append(text.tokens, 0, cache);
    std::vector<std::int32_t> wanted(static_cast<std::size_t>(count - text.first_row));
    std::iota(wanted.begin(), wanted.end(), static_cast<std::int32_t>(text.first_row));
    const auto [batch, rows] = begin_step(wanted);
    const DeviceMatrix hidden = models::hidden_states(ops_, decoder(), batch);
    for (std::size_t at = 0; at < rows.size(); at += kScoreRows) {
      const auto chunk = rows.subspan(at, std::min<std::size_t>(kScoreRows, rows.size() - at));
      const DeviceMatrix part = ops_.gather(hidden, chunk);
      consume(first + static_cast<std::int64_t>(at),
              download(models::logits(ops_, decoder(), part)));
    }
    return static_cast<std::int64_t>(rows.size());
  }

  LogitsView download(const DeviceMatrix& logits) {
    const std::int64_t bytes =
        logits.rows() * logits.columns() * static_cast<std::int64_t>(sizeof(float));
    if (logits_.bytes() < bytes) {
      logits_ = device::cuda::PinnedBuffer(bytes);
    }
    device::cuda::check(
        cudaMemcpyAsync(logits_.data(), logits.data(), static_cast<std::size_t>(bytes),
                        cudaMemcpyDeviceToHost, ops_.stream()),
        "cudaMemcpyAsync");
    ops_.synchronize();
    return {{logits_.as<float>(), static_cast<std::size_t>(logits.rows() * logits.columns())},
            logits.rows(),
            logits.columns()};
  }

  std::shared_ptr<const models::Model> model_;
  ops::cpu::KvTypes kv_types_;
  core::ThreadPool host_pool_;
  CudaOps ops_;
  std::vector<std::int64_t> windows_;  // each length of a sliding window once
  std::int64_t kv_bytes_ = 0;
  std::map<SequenceId, Sequence> sequences_;
  SequenceId last_id_ = 0;
  // Decode steps by their number of sequences, and by whether keys are split.
  std::map<std::pair<std::int64_t, bool>, DecodeStep> seen_;
  StepTokens step_;
  std::vector<ops::SequenceSlice<KvSequence>> parts_;
  device::cuda::PinnedBuffer logits_;
};

}  // namespace

std::unique_ptr<Runner> make_cuda_runner(std::shared_ptr<const models::Model> model,
                                         const RunnerOptions& options) {
  return std::make_unique<CudaRunner>(std::move(model), options);
}

}  // namespace nibble::engine
