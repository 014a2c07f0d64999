#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "engine/drafts.h"
#include "engine/generation.h"
#include "engine/page_pool.h"
#include "engine/request.h"
#include "engine/runner.h"

namespace nibble::engine {

struct EngineOptions {
  std::int64_t context = 0;     // tokens of prompt and completion; 0: what the model was made for
  std::int64_t max_batch = 16;  // sequences that are in the KV cache at a time
  std::int64_t kv_bytes = 0;    // of the KV cache; 0: room for max_batch whole contexts, or what
                                // the device has free
  // Of the host's memory for what is computed of preempted sequences; where it has no room they are
  // computed again. Taken as it is needed. Nothing: on one GPU as much as the KV cache, but at most
  // a quarter of what the host has available, and none where computing is faster; none elsewhere,
  // where it is refused.
  std::optional<std::int64_t> swap_bytes = std::nullopt;
  std::int64_t prefill_rows = 0;  // prompt tokens computed in one step, at most what the runner
                                  // likes; 0: just that
  bool prefix_cache = true;       // keep computed prefixes for later requests
  bool deterministic = false;     // where rows depend on what shares their step (runner.h), compute
                                  // each prompt alone: slower, and prompts no longer depend on load
};

/// What an engine does and has done.
struct EngineState {
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t pages = 0;         // of the KV cache
  std::int64_t pages_in_use = 0;  // by sequences

  // Since the start.
  std::int64_t prompt_tokens = 0;  // computed, or taken from the prefix cache
  std::int64_t generated_tokens = 0;
  std::int64_t prefix_queries = 0;  // prompt tokens that were looked for in the prefix cache
  std::int64_t prefix_hits = 0;     // those that were found
  std::int64_t preemptions = 0;
  std::int64_t swapped_tokens = 0;  // that were not computed again after a preemption
  std::int64_t steps = 0;
  std::int64_t drafted_tokens = 0;
  std::int64_t accepted_drafts = 0;
};

using RequestId = std::uint64_t;

/// Runs many requests together (continuous batching, Orca, OSDI 2022; paged attention, arXiv
/// 2309.06180). Requests are admitted in order, as soon as the pages of the KV cache hold what they
/// have so far. A step computes the next token of every running sequence and, beside them, chunks
/// of prompts (Sarathi-Serve, arXiv 2403.02310). When the pages run out, the sequence that was
/// admitted last gives its pages back; what they hold is kept in the host's memory
/// (EngineOptions::swap_bytes) or computed again later.
///
/// Where the runner can (Runner::ahead()) and every running request draws from a few of the most
/// probable tokens, without more wishes, the device draws, and a step is begun before the results
/// of the last one are taken: the device does not wait for the host. A sequence that turns out to
/// have ended then was computed once more for nothing.
///
/// Where the runner's rows are independent (runner.h), the tokens of a request depend on nothing
/// else: not on what shares its batch, on prefixes that were cached, on preemption or on drafts.
///
/// For one thread. Callbacks come from within step() and cancel(); they may call submit() and
/// cancel(), and must not throw.
class Engine {
 public:
  /// `drafts` may be null. Throws kUsage for a context that the model was not made for,
  /// kOutOfMemory.
  Engine(std::shared_ptr<const models::Model> model, std::unique_ptr<Runner> runner,
         const EngineOptions& options, std::unique_ptr<DraftSource> drafts = nullptr);
  ~Engine();

  /// Queues a request. Throws kUsage when it can't be served: an empty prompt, one that fills the
  /// context or the KV cache, ids outside the vocabulary, a grammar without any text, options out
  /// of range.
  RequestId submit(Request request);

  /// Ends a request wherever it is, with what it has generated; nothing for one that has ended.
  void cancel(RequestId id);

  /// One step. False when nothing is left to do. What goes wrong in a step fails the requests that
  /// it computed (FinishReason::kFailed), not the others. When the runner has failed so many steps
  /// in a row (missing memory does not count), the device or the model is beyond help: then what it
  /// threw is thrown, and the engine must not be used further.
  static constexpr int kMaxFailedSteps = 3;
  bool step();
  void run_all() {
    while (step()) {
    }
  }

  /// The mean of the final hidden states of a text, of length 1. Throws kUsage as submit(), and
  /// kOutOfMemory when running requests leave too few pages.
  std::vector<float> embed(std::span<const std::int32_t> tokens);

  /// The same in parts, between which there may be steps: advance() computes the next one, and
  /// gives the result after the last. One that threw must not be advanced further; its failure
  /// counts as that of a step, and the next step() tells whether the engine is beyond help. None
  /// may outlive the engine.
  class Embedding;
  std::shared_ptr<Embedding> begin_embedding(std::vector<std::int32_t> tokens);
  std::optional<std::vector<float>> advance(Embedding& embedding);

  EngineState state() const;
  /// Tokens of prompt and completion at the most.
  std::int64_t context() const { return options_.context; }
  /// Requests that run at a time at the most.
  std::int64_t max_batch() const { return options_.max_batch; }
  Runner& runner() { return *runner_; }

 private:
  struct Sequence;
  struct Part;
  using Sequences = std::list<std::unique_ptr<Sequence>>;
  using Parts = std::vector<Part>;

  void check_prompt(std::span<const std::int32_t> prompt) const;
  void admit();
  bool start(Sequence& sequence);
  void find_prefix(Sequence& sequence);
  void preempt(Sequence& sequence);
  void swap_out(Sequence& sequence);
  void swap_in(Sequence& sequence);
  void drop_swapped(Sequence& sequence);
  bool reserve(Sequence& sequence, std::int64_t tokens);
  bool reserve_or_preempt(Sequence& sequence);
  void release_pages(Sequence& sequence);
  void publish(Sequence& sequence, std::int64_t known);
  bool texts_are_alike() const;
  bool prompts_alone() const;
  Parts choose();
  void choose_prompts(Parts& chosen);
  void choose_decoding(Parts& chosen);
  void draft(std::span<Part> parts);
  bool steps_ahead() const;
  void step_ahead();
  bool begin_ahead(Parts& parts);
  void finish(Parts parts);
  void finish_under_way();
  void finish_unwanted();
  void compute(std::span<Part> parts);
  void forward(std::span<Part> parts);
  static std::vector<Slice> slices_of(std::span<Part> parts);
  static std::vector<ops::TokenDraw> draws_of(std::span<const Part> parts);
  void give_up(std::span<Part> parts, const std::exception_ptr& failure);
  void note_failure(const std::exception_ptr& error);
  void take_ranked(std::span<Part> parts);
  template <typename Row>
  void take_results(Part& part, Row row);
  void sweep();

  std::shared_ptr<const models::Model> model_;
  std::unique_ptr<Runner> runner_;
  EngineOptions options_;
  std::unique_ptr<DraftSource> drafts_;
  PagePool pages_;
  SwappedPages* swapped_ = nullptr;  // the runner's; null: there is no such memory
  Sequences waiting_;                // the first is admitted next
  Sequences running_;                // in the order of admission
  bool decode_next_ = false;         // where prompts and decoding take turns
  Parts under_way_;                  // of the step that was begun and not finished
  bool in_step_ = false;
  int failed_steps_ = 0;           // in a row
  std::exception_ptr last_error_;  // of the last of them
  RequestId last_id_ = 0;
  EngineState state_;
  std::vector<ops::RankedToken> ranked_;
  std::shared_ptr<const text::TokenTree> tree_;  // made for the first grammar
};

}  // namespace nibble::engine
