#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "core/cpu_topology.h"
#include "core/memory.h"
#include "device/cuda/check.h"
#include "device/cuda/event.h"
#include "device/cuda/graph.h"
#include "device/cuda/memory.h"
#include "engine/cuda_layers.h"
#include "engine/cuda_limits.h"
#include "engine/cuda_swapped_pages.h"
#include "engine/divided_runner.h"
#include "engine/runner.h"
#include "engine/sampler.h"
#include "engine/step_tokens.h"
#include "models/forward.h"
#include "models/shard.h"
#include "ops/cuda/divided/divided_cuda_ops.h"
#include "ops/cuda/sampling/ranking.h"
#include "ops/cuda/sampling/send_tokens.h"

namespace nibble::engine {
namespace {

using core::ErrorKind;
using ops::cuda::DeviceMatrix;
using ops::cuda::DividedCudaOps;
using ops::cuda::KvPool;
using ops::cuda::KvSequence;
using ops::cuda::RankedRows;

constexpr std::int64_t kScoreRows = 256;  // rows of logits that exist at a time when scoring
constexpr double kPoolShare = 0.8;        // of the memory that is free when weights are loaded

/// How many tokens of each row a step ranks when `kept` are wanted: the first takes at most a
/// third of the time that more do. Steps that rank as many are alike.
std::int64_t ranks_of_step(std::int64_t kept) {
  constexpr std::int64_t kRanks = ops::kMostDrawn;
  return kept <= 1 ? kept : kept <= kRanks ? kRanks : 0;
}

/// What a step leaves on the device; `ranked` may have no tokens.
struct StepResults {
  DeviceMatrix logits;
  RankedRows ranked;
};

/// Ranked tokens on their way to the host.
struct ArrivingTokens {
  std::int64_t count = 0;  // of all rows
  device::cuda::PinnedBuffer tokens;
  device::cuda::Event arrived;

  void fetch(const RankedRows& ranked, cudaStream_t stream) {
    count = ranked.rows * ranked.count;
    auto* const target = tokens.room_for<ops::RankedToken>(count);
    ops::cuda::send_tokens(ranked.tokens.as<const ops::RankedToken>(), count, target, stream);
    arrived.record(stream);
  }
  RankedTokens all() const {
    return {tokens.as<const ops::RankedToken>(), static_cast<std::size_t>(count)};
  }
};

/// What makes decode steps alike: their number of sequences, their kernels, and how many tokens of
/// each row they rank.
using StepKind = std::tuple<std::int64_t, int, std::int64_t>;

/// A recorded decode step.
struct DecodeStep {
  device::cuda::Graph graph;
  StepResults results;
};

// With a communicator, one rank of those that run a model together.
class CudaRunner final : public Runner, private StepsAhead {
 public:
  CudaRunner(std::shared_ptr<const models::Model> model, const RunnerOptions& options,
             const std::shared_ptr<ranks::Communicator>& communicator = nullptr)
      : model_(std::move(model)),
        kv_types_(options.kv_types),
        host_pool_(options.cpu.threads > 0 ? options.cpu.threads : core::available_cores()),
        ops_({}, options.schedules, options.place.index,
             {.exact = options.cpu.activations == ops::ActivationPrecision::kFloat,
              .chained = !options.alike_steps}),
        step_(config().vocabulary) {
    prepare_layers(*model_, ops_, host_pool_);
    if (communicator) {
      const models::Shard shard{communicator->rank(), communicator->size(), models::Cut::kInputs};
      divided_ = true;
      ops_.divide(std::make_unique<ops::cuda::Collectives>(communicator),
                  models::division_of(network(), shard));
    }
    for (const models::Block& block : network().decoder.blocks) {
      const std::int64_t window = block.attention.spec.mask.window;
      if (std::find(windows_.begin(), windows_.end(), window) == windows_.end()) {
        windows_.push_back(window);
      }
    }
  }

  ~CudaRunner() override {
    ops_.make_current();
    ops_.end();
    seen_.clear();  // what collectives await that recorded steps hold
  }
  CudaRunner(const CudaRunner&) = delete;
  CudaRunner& operator=(const CudaRunner&) = delete;

  void make_pages(std::int64_t count) override {
    ops_.make_current();
    seen_.clear();  // recorded steps know where the pages were
    last_begun_ = nullptr;
    swapped_.reset();
    ops_.set_kv_pool(nullptr);
    ops_.set_kv_pool(std::make_unique<KvPool>(kv_layout(), config().layers, count));
    kv_bytes_ = count * page_bytes();
  }

  std::int64_t pages() const override { return ops_.has_kv_pool() ? ops_.kv_pool().pages() : 0; }

  std::int64_t page_bytes() const override { return config().layers * kv_layout().page_bytes(); }

  std::int64_t room_for_pages() const override {
    ops_.make_current();
    std::size_t free = 0;
    std::size_t total = 0;
    device::cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    const auto pages =
        static_cast<std::int64_t>(static_cast<double>(free) * kPoolShare) / page_bytes();
    core::require(pages > 0, ErrorKind::kOutOfMemory,
                  "the GPU has {:.2f} GB free beside the weights, too little for a KV cache",
                  static_cast<double>(free) / 1e9);
    return pages;
  }

  bool rows_are_independent() const override { return false; }
  std::int64_t prefill_rows() const override { return 2048; }

  LogitsView forward(std::span<const Slice> slices) override {
    return download(compute(slices, 0).logits);
  }

  void forward_ranked(std::span<const Slice> slices, std::int64_t count,
                      std::vector<ops::RankedToken>& ranked) override {
    const std::int64_t wanted = count == 0 ? config().vocabulary : count;
    const std::int64_t kept = std::min(wanted, config().vocabulary);
    if (kept > ops::cuda::kMaxRanked) {
      return Runner::forward_ranked(slices, count, ranked);
    }
    const StepResults& results = compute(slices, ranks_of_step(kept));
    const std::int64_t rows = results.logits.rows();
    RankedRows more;
    if (rows > 0 && results.ranked.count < kept) {
      more = ops_.rank(results.logits, kept);
    }
    const RankedRows& all = more.count > 0 ? more : results.ranked;
    ranked_.fetch(all, ops_.stream());
    ops_.synchronize();
    ranked.clear();
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto tokens = ranked_.all().subspan(static_cast<std::size_t>(row * all.count),
                                                static_cast<std::size_t>(kept));
      ranked.insert(ranked.end(), tokens.begin(), tokens.end());
    }
  }

  SwappedPages* make_swap_space(std::optional<std::int64_t> bytes) override {
    const std::int64_t most = bytes ? *bytes : swap_bytes_that_pay();
    if (divided_ || most == 0) {
      return nullptr;
    }
    ops_.make_current();
    swapped_.emplace(ops_, page_bytes(), most, host_pool_);
    return &*swapped_;
  }

  // Where ranks share a model, a rank that has ended would not be seen behind an event.
  StepsAhead* ahead() override { return divided_ ? nullptr : this; }

  void score_texts(std::span<const ScoredText> texts, const ConsumeLogits& consume) override {
    std::int64_t scored = 0;
    for (const ScoredText& text : texts) {  // each alone: a step has a bounded number of tokens
      scored += score_text(text, scored, consume);
    }
  }

  std::vector<float> hidden_sum(const Slice& slice) override {
    core::require(ops_.has_kv_pool(), ErrorKind::kFailed, "the KV cache was not made");
    clear_step();
    append(slice);
    const auto [batch, rows] = begin_step({});
    const DeviceMatrix hidden =
        models::final_states(ops_, network(), models::hidden_states(ops_, network(), batch));
    return sum_of_rows(download(hidden));
  }

  core::ThreadPool& pool() override { return host_pool_; }

  DeviceLimits measure_limits() override {
    ops_.make_current();
    return measure_cuda_limits(ops_.device());
  }

  std::int64_t peak_bytes() const override {
    return ops_.prepared_bytes() + ops_.peak_activation_bytes() + kv_bytes_;
  }

  std::int64_t bytes_per_token() const override { return weight_bytes_per_token(network()); }

 private:
  void begin(std::span<const Slice> slices, std::span<const ops::TokenDraw> draws) override {
    core::require(begun_ - finished_ < kMost, ErrorKind::kFailed, "{} steps are under way", kMost);
    std::int64_t most = 1;
    for (const ops::TokenDraw& draw : draws) {
      most = std::max<std::int64_t>(most, draw.top_k);
    }
    const StepResults& results = compute(slices, ranks_of_step(most));
    const auto place = static_cast<std::size_t>(begun_ % kMost);
    last_begun_ = &results.ranked;
    if (!draws.empty()) {
      auto* const there = draws_[place].room_for<ops::TokenDraw>(std::ssize(draws));
      std::copy(draws.begin(), draws.end(), there);
      drawn_ = ops_.draw(results.logits, results.ranked, {there, draws.size()});
      last_begun_ = &drawn_;
    }
    arriving_[place].fetch(*last_begun_, ops_.stream());
    ++begun_;
  }

  void finish(std::vector<ops::RankedToken>& chosen) override {
    core::require(finished_ < begun_, ErrorKind::kFailed, "no step is under way");
    const ArrivingTokens& step = arriving_[static_cast<std::size_t>(finished_ % kMost)];
    ++finished_;
    ops_.make_current();
    step.arrived.synchronize();
    chosen.assign(step.all().begin(), step.all().end());
  }

  // As much as the KV cache, but none where computing a token again takes less time than its keys
  // and values take over the bus twice. An H200 does some 18,000 multiplications of INT8 in the
  // time in which a byte crosses its bus twice (55 GB/s); those of a few hundred tokens more cost
  // half of that in a step that waits for memory (docs/experiments/serving.md).
  std::int64_t swap_bytes_that_pay() const {
    constexpr std::int64_t kMultiplicationsOfAByte = 32768;
    const std::int64_t bytes_of_token = page_bytes() / ops::kPageTokens;
    if (bytes_of_token * kMultiplicationsOfAByte > multiplications_per_token(network())) {
      return 0;
    }
    return std::min(kv_bytes_, core::available_memory_bytes() / 4);
  }

  const models::Network& network() const { return model_->network; }
  const models::NetworkConfig& config() const { return network().config; }

  // Of the heads that are here.
  const ops::AttentionSpec& attention() const {
    return network().decoder.blocks.front().attention.spec;
  }

  ops::cuda::KvLayout kv_layout() const {
    return {kv_types_, attention().kv_heads, config().head_dim};
  }

  // `rows_before`: those of the last step whose tokens this one may take.
  void clear_step(std::int64_t rows_before = 0) {
    ops_.make_current();
    step_.clear(rows_before);
    parts_.clear();
    caches_.clear();
  }

  void append(const Slice& slice) {
    const auto rows = static_cast<std::int64_t>(slice.tokens.size());
    caches_.push_back({slice.pages});
    parts_.push_back({&caches_.back(), slice.position, step_.size(), rows});
    step_.append(slice);
  }

  // Puts the step's numbers on the device; the batch to give to operators, and its rows.
  std::pair<models::Batch<DividedCudaOps>, std::span<const std::int32_t>> begin_step(
      std::span<const std::int32_t> rows, const RankedRows* taken = nullptr) {
    const models::Batch<DividedCudaOps> batch{step_.tokens(), step_.positions(), parts_};
    const DividedCudaOps::Step step =
        ops_.begin_step(batch, rows, windows_, attention().heads / attention().kv_heads, taken);
    return {{step.tokens, step.positions, parts_}, step.rows};
  }

  // Continues sequences; of the wanted rows, until the next step, with their `ranks` first tokens.
  const StepResults& compute(std::span<const Slice> slices, std::int64_t ranks) {
    core::require(ops_.has_kv_pool(), ErrorKind::kFailed, "the KV cache was not made");
    const RankedRows* const before = std::exchange(last_begun_, nullptr);
    clear_step(before == nullptr ? 0 : before->rows);
    for (const Slice& slice : slices) {
      append(slice);
    }
    const auto [batch, rows] =
        begin_step(step_.logit_rows(), step_.any_unknown() ? before : nullptr);
    return run(batch, rows, std::min(ranks, config().vocabulary));
  }

  // A step in which every sequence has one token is recorded when it comes for the second time, if
  // that is possible.
  const StepResults& run(const models::Batch<DividedCudaOps>& batch,
                         std::span<const std::int32_t> rows, std::int64_t ranks) {
    unrecorded_ = StepResults();  // a step that is recorded finds all its memory in the pool
    const auto m = step_.size();
    const bool decode = m == std::ssize(parts_) && m == std::ssize(rows);
    const StepKind kind{m, ops_.kernels(), ranks};
    if (rows.empty()) {
      models::hidden_states(ops_, network(), batch);
      return unrecorded_;
    }
    if (!decode || !seen_.contains(kind)) {
      unrecorded_ = results_of(batch, rows, ranks);
      if (decode && !ops_.waited()) {
        seen_.insert({kind, DecodeStep{}});
      }
      return unrecorded_;
    }
    DecodeStep& step = seen_.at(kind);
    if (step.graph.empty()) {
      step.graph = device::cuda::Graph::record(
          ops_.stream(), [&] { step.results = results_of(batch, rows, ranks); });
    }
    step.graph.launch(ops_.stream());
    return step.results;
  }

  StepResults results_of(const models::Batch<DividedCudaOps>& batch,
                         std::span<const std::int32_t> rows, std::int64_t ranks) {
    StepResults results;
    results.logits = models::forward(ops_, network(), batch, rows);
    if (ranks > 0) {
      results.ranked = ops_.rank(results.logits, ranks);
    }
    return results;
  }

  std::int64_t score_text(const ScoredText& text, std::int64_t first,
                          const ConsumeLogits& consume) {
    const std::int64_t count = std::ssize(text.tokens);
    std::vector<ops::PageId> pages(static_cast<std::size_t>(ops::pages_for(count)));
    std::iota(pages.begin(), pages.end(), 0);
    if (this->pages() < std::ssize(pages)) {
      make_pages(std::ssize(pages));
    }
    clear_step();
    append({pages, 0, text.tokens});  // what rounding in the cache does is part of it
    std::vector<std::int32_t> wanted(static_cast<std::size_t>(count - text.first_row));
    std::iota(wanted.begin(), wanted.end(), static_cast<std::int32_t>(text.first_row));
    const auto [batch, rows] = begin_step(wanted);
    const DeviceMatrix hidden = models::hidden_states(ops_, network(), batch);
    for (std::size_t at = 0; at < rows.size(); at += kScoreRows) {
      const auto chunk = rows.subspan(at, std::min<std::size_t>(kScoreRows, rows.size() - at));
      const DeviceMatrix part = ops_.gather(hidden, chunk);
      consume(first + static_cast<std::int64_t>(at),
              download(models::logits(ops_, network(), part)));
    }
    return static_cast<std::int64_t>(rows.size());
  }

  LogitsView download(const DeviceMatrix& logits) {
    if (logits.rows() == 0) {
      return {{}, 0, config().vocabulary};
    }
    const std::int64_t count = logits.rows() * logits.columns();
    auto* const values = logits_.room_for<float>(count);
    device::cuda::check(
        cudaMemcpyAsync(values, logits.data(), static_cast<std::size_t>(count) * sizeof(float),
                        cudaMemcpyDeviceToHost, ops_.stream()),
        "cudaMemcpyAsync");
    ops_.synchronize();
    return {{values, static_cast<std::size_t>(count)}, logits.rows(), logits.columns()};
  }

  std::shared_ptr<const models::Model> model_;
  ops::KvTypes kv_types_;
  core::ThreadPool host_pool_;
  DividedCudaOps ops_;
  bool divided_ = false;
  std::vector<std::int64_t> windows_;  // each length of a sliding window once
  std::int64_t kv_bytes_ = 0;
  std::optional<CudaSwappedPages> swapped_;
  std::map<StepKind, DecodeStep> seen_;
  StepResults unrecorded_;  // of a step that is not recorded
  ArrivingTokens ranked_;
  // Of steps ahead, by their number; of the one that was begun last, if nothing was computed since.
  std::array<device::cuda::PinnedBuffer, kMost> draws_;
  RankedRows drawn_;
  std::array<ArrivingTokens, kMost> arriving_;
  std::int64_t begun_ = 0;
  std::int64_t finished_ = 0;
  const RankedRows* last_begun_ = nullptr;
  StepTokens step_;
  std::vector<ops::SequenceSlice<KvSequence>> parts_;
  std::deque<KvSequence> caches_;  // of the parts, which point to them
  device::cuda::PinnedBuffer logits_;
};

}  // namespace

std::unique_ptr<Runner> make_cuda_runner(std::shared_ptr<const models::Model> model,
                                         const RunnerOptions& options) {
  return std::make_unique<CudaRunner>(std::move(model), options);
}

std::unique_ptr<Runner> make_cuda_rank_runner(
    std::shared_ptr<const models::Model> model, const RunnerOptions& options,
    const std::shared_ptr<ranks::Communicator>& communicator) {
  return std::make_unique<CudaRunner>(std::move(model), options, communicator);
}

}  // namespace nibble::engine
