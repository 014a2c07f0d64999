#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/threads.h"
#include "device/place.h"
#include "models/model.h"
#include "ops/cpu_options.h"
#include "ops/kv_pages.h"
#include "ops/kv_types.h"
#include "ops/ranked_token.h"
#include "ops/token_draw.h"

namespace nibble::ops::cuda {
class Schedules;
}

namespace nibble::engine {

/// Tokens that continue a sequence, whose position p lies in page pages[p / kPageTokens] of the KV
/// cache. What stands before has been computed.
struct Slice {
  std::span<const ops::PageId> pages;
  std::int64_t position = 0;  // of the first token
  std::span<const std::int32_t> tokens;
  std::int64_t logits = 1;  // rows of logits that are wanted: those of its last tokens; may be 0
  std::int64_t prompt_tokens = 0;  // the first of the tokens, which were given and not written by
                                   // the model
};

/// A text that stands alone, of which the logits are wanted from token `first_row` on.
struct ScoredText {
  std::span<const std::int32_t> tokens;
  std::int64_t first_row = 0;
};

/// Logits of some rows, row-major [rows, vocabulary], valid until the next call.
struct LogitsView {
  std::span<const float> values;
  std::int64_t rows = 0;
  std::int64_t vocabulary = 0;
  std::span<const float> row(std::int64_t i) const {
    return values.subspan(static_cast<std::size_t>(i * vocabulary),
                          static_cast<std::size_t>(vocabulary));
  }
};

/// The rows added up, [vocabulary].
std::vector<float> sum_of_rows(const LogitsView& rows);

/// Takes rows of logits as they are computed; `first_row` is the number of the first of them.
using ConsumeLogits = std::function<void(std::int64_t first_row, const LogitsView& logits)>;

/// What a device can do at the most, as measured.
struct DeviceLimits {
  std::string name;                     // "cpu, 2 threads", "NVIDIA H200"
  double read_bytes_per_second = 0;     // streaming memory that is in no cache
  double multiply_adds_per_second = 0;  // 8-bit products into 32-bit sums, from registers
  std::int64_t cache_bytes = 0;         // of the last cache before the memory; 0: not known
};

/// Stands in a slice for a token that the host does not know yet: the one chosen for row `row` of
/// the step that was begun last (StepsAhead).
constexpr std::int32_t token_of_row(std::int64_t row) {
  return -1 - static_cast<std::int32_t>(row);
}

/// Steps that are begun before the results of the last one are taken, so that the device does not
/// wait for the host.
class StepsAhead {
 public:
  virtual ~StepsAhead() = default;

  /// How many steps may be begun and not finished.
  static constexpr int kMost = 2;

  /// Begins Runner::forward(), behind what was begun before, and chooses a token for each row: by
  /// `draws`, whose top_k is at most kMostDrawn, or the first one where there are no draws. Tokens
  /// may be token_of_row() of the last step, which was begun here; where that row has NaN, any
  /// token takes its place. Throws as forward() does, and then has begun nothing.
  virtual void begin(std::span<const Slice> slices, std::span<const ops::TokenDraw> draws) = 0;

  /// Waits for the step that was begun first of those that were not finished: what was chosen for
  /// each row; id -1 where it has NaN. Throws what went wrong in it, and then it is finished, too.
  virtual void finish(std::vector<ops::RankedToken>& chosen) = 0;
};

/// Memory of the host for pages of the KV cache whose place others need (swapping, arXiv
/// 2309.06180, section 4.5).
class SwappedPages {
 public:
  virtual ~SwappedPages() = default;

  /// What was swapped out together.
  using Id = std::uint64_t;

  /// Keeps what the pages will hold when all steps have ended that were begun; from then on they
  /// may serve others. Nothing where there is no room.
  virtual std::optional<Id> swap_out(std::span<const ops::PageId> pages) = 0;
  /// Pages get what was kept, from the page `first` of those that were swapped out on.
  virtual void swap_in(Id id, std::int64_t first, std::span<const ops::PageId> pages) = 0;
  /// Ends the keeping.
  virtual void drop(Id id) = 0;
};

/// A model made ready on one device. The forward pass is models/forward.h over that device's
/// operators; this interface hides which. One caller at a time.
class Runner {
 public:
  virtual ~Runner() = default;

  /// Makes a KV cache of so many pages, in place of the one before. Throws kOutOfMemory.
  virtual void make_pages(std::int64_t count) = 0;
  /// Pages of the KV cache; 0 before it was made.
  virtual std::int64_t pages() const = 0;
  virtual std::int64_t page_bytes() const = 0;
  /// Pages that the device's free memory has room for, as far as is known.
  virtual std::int64_t room_for_pages() const = 0;

  /// Whether a row's results are the same bits whatever else is in the step and however its
  /// sequence was cut into slices, the same tokens being those of prompts.
  virtual bool rows_are_independent() const = 0;

  /// Whether a token has the same bits as one of a prompt (Slice::prompt_tokens) and as one behind.
  virtual bool prompts_are_alike() const { return true; }

  /// Tokens of a prompt that make a step large enough for the device.
  virtual std::int64_t prefill_rows() const { return 512; }

  /// Continues sequences; the wanted rows of logits, slice after slice. Throws kFailed when a slice
  /// has too few pages or a token id lies outside the vocabulary.
  virtual LogitsView forward(std::span<const Slice> slices) = 0;

  /// As forward(), but of each row only the `count` first tokens by their logits (sampler.h), all
  /// where count is 0 or larger than the vocabulary: `ranked` [rows, tokens]. A row with NaN or
  /// -infinity has ids of -1.
  virtual void forward_ranked(std::span<const Slice> slices, std::int64_t count,
                              std::vector<ops::RankedToken>& ranked);

  /// A new place for pages, of at most `bytes`, until make_pages(); null where the device's memory
  /// is the host's, or ranks share the model. Where nobody says how much, as EngineOptions::
  /// swap_bytes has it, which may be null, too.
  virtual SwappedPages* make_swap_space(std::optional<std::int64_t> /*bytes*/) { return nullptr; }

  /// Null where steps can't be begun ahead.
  virtual StepsAhead* ahead() { return nullptr; }

  /// The sum over a slice's tokens of what the output layer would see: final hidden states [hidden]
  /// after the last norm. `slice.logits` means nothing.
  virtual std::vector<float> hidden_sum(const Slice& slice) = 0;

  /// Computes texts together, none of which sees another, and hands over the wanted rows of their
  /// logits in chunks. Rows are counted over all texts, wanted ones only. Keys and values are
  /// rounded as the KV cache would. Not while sequences lie in the KV cache: it may be used, or
  /// made anew.
  virtual void score_texts(std::span<const ScoredText> texts, const ConsumeLogits& consume) = 0;

  /// Logits of every token of one text.
  void score(std::span<const std::int32_t> tokens, const ConsumeLogits& consume) {
    const ScoredText text{tokens, 0};
    score_texts({&text, 1}, consume);
  }

  /// Threads of the host, for work on logits.
  virtual core::ThreadPool& pool() = 0;

  /// Measures what limits the runner's device; takes less than a second.
  virtual DeviceLimits measure_limits() = 0;

  /// Bytes that one decode step reads at batch 1: all weights once, except embedding rows.
  virtual std::int64_t bytes_per_token() const = 0;

  /// Bytes of the pages of a sequence of `tokens`.
  std::int64_t kv_bytes(std::int64_t tokens) const { return ops::pages_for(tokens) * page_bytes(); }

  /// The most memory that was held at a time: weights as the kernels use them, KV caches,
  /// activations.
  virtual std::int64_t peak_bytes() const = 0;
};

/// Throws kUsage for a decoder that has what is built for CPUs alone, and names it.
void require_runs_on_gpu(const models::Network& network);

struct RunnerOptions {
  device::Place place;
  ops::CpuOptions cpu;  // on a GPU: of the work that stays on the host
  ops::KvTypes kv_types;
  // On a GPU: how its linear layers are divided (kernel_schedules.h); null: as is built in.
  std::shared_ptr<const ops::cuda::Schedules> schedules;
  // On a GPU: a step of one token has the bits of one of a few, which costs up to a tenth of the
  // speed of one text.
  bool alike_steps = false;
  std::filesystem::path tile_file;  // layouts to map (tile_file.h); empty: they are made
};

/// How a model that a device shall run is opened: GPUs read MLX's biases as zero points.
models::StoredLayers stored_layers_for(const device::Place& place);

/// The runner of options.place. Throws kUsage where that device cannot be used, or does not run
/// the model; kOutOfMemory; and as TileFile::open().
std::unique_ptr<Runner> make_runner(std::shared_ptr<const models::Model> model,
                                    const RunnerOptions& options);

std::unique_ptr<Runner> make_cpu_runner(std::shared_ptr<const models::Model> model,
                                        const RunnerOptions& options);
std::unique_ptr<Runner> make_cuda_runner(std::shared_ptr<const models::Model> model,
                                         const RunnerOptions& options);

/// Bytes that one decode step reads at batch 1: all weights once, except embedding rows.
std::int64_t weight_bytes_per_token(const models::Network& network);

/// Of a token in all linear layers of the blocks that it passes.
std::int64_t multiplications_per_token(const models::Network& network);

}  // namespace nibble::engine
