#include "engine/engine.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <iterator>
#include <new>
#include <numeric>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "engine/engine_sequence.h"

namespace nibble::engine {
namespace {

using core::ErrorKind;
using std::ssize;

constexpr std::int64_t kScoredRows = 64;  // of a prompt whose tokens get records, in one step

// Throws kUsage for a context that the model was not made for.
std::int64_t context_of(const EngineOptions& options, const models::Model& model) {
  const std::int64_t most = model.network.config.max_positions;
  core::require(options.context >= 0 && options.context <= most, ErrorKind::kUsage,
                "a context of {} tokens was asked for, the model was made for {}", options.context,
                most);
  return options.context == 0 ? most : options.context;
}

std::int64_t page_count(const EngineOptions& options, const Runner& runner, std::int64_t context) {
  if (options.kv_bytes == 0) {
    const std::int64_t wanted = options.max_batch * ops::pages_for(context);
    return std::max<std::int64_t>(1, std::min(wanted, runner.room_for_pages()));
  }
  const std::int64_t pages = options.kv_bytes / runner.page_bytes();
  core::require(pages > 0, ErrorKind::kUsage,
                "a KV cache of {} bytes was asked for; a page of {} tokens has {}",
                options.kv_bytes, kPageTokens, runner.page_bytes());
  core::require(options.context == 0 || ops::pages_for(context) <= pages, ErrorKind::kUsage,
                "a context of {} tokens needs {} bytes of KV cache, {} were asked for", context,
                ops::pages_for(context) * runner.page_bytes(), options.kv_bytes);
  return pages;
}

}  // namespace

Engine::Engine(std::shared_ptr<const models::Model> model, std::unique_ptr<Runner> runner,
               const EngineOptions& options, std::unique_ptr<DraftSource> drafts)
    : model_(std::move(model)),
      runner_(std::move(runner)),
      options_(options),
      drafts_(std::move(drafts)),
      pages_(page_count(options, *runner_, context_of(options, *model_))) {
  core::require(options.max_batch > 0 && options.prefill_rows >= 0, ErrorKind::kUsage,
                "max batch must be at least 1, and the rows of a prefill step not negative");
  options_.prefill_rows = options.prefill_rows == 0
                              ? runner_->prefill_rows()
                              : std::min(options.prefill_rows, runner_->prefill_rows());
  options_.context = std::min(context_of(options, *model_), pages_.size() * kPageTokens);
  runner_->make_pages(pages_.size());
}

Engine::~Engine() = default;

void Engine::check_prompt(std::span<const std::int32_t> prompt) const {
  core::require(!prompt.empty(), ErrorKind::kUsage, "the prompt is empty");
  core::require(ssize(prompt) < options_.context, ErrorKind::kUsage,
                "the prompt has {} tokens, the context holds {} with room for at least one more",
                prompt.size(), options_.context);
  const std::int64_t vocabulary = model_->network.config.vocabulary;
  for (const std::int32_t token : prompt) {
    core::require(token >= 0 && token < vocabulary, ErrorKind::kUsage,
                  "token id {} lies outside the vocabulary of {}", token, vocabulary);
  }
}

RequestId Engine::submit(Request request) {
  check_prompt(request.prompt);
  core::require(request.max_tokens > 0, ErrorKind::kUsage, "max tokens is {}, must be at least 1",
                request.max_tokens);
  validate(request.sampling, model_->network.config.vocabulary);
  for (const auto& count : {request.log_probabilities, request.prompt_log_probabilities}) {
    core::require(!count || (*count >= 0 && *count <= kMaxLogProbabilities), ErrorKind::kUsage,
                  "log probabilities of {} tokens were asked for, must be 0 to {}",
                  count.value_or(0), kMaxLogProbabilities);
  }
  if (request.grammar) {
    text::GrammarMatcher matcher(request.grammar);
    core::require(matcher.start() != text::GrammarMatcher::kDead, ErrorKind::kUsage,
                  "the grammar has no text at all");
    if (!tree_) {
      tree_ = std::make_shared<const text::TokenTree>(*model_->tokenizer);
    }
  }
  const std::int64_t limit = std::min(request.max_tokens, options_.context - ssize(request.prompt));
  waiting_.push_back(
      std::make_unique<Sequence>(++last_id_, std::move(request), limit, *model_, tree_));
  return last_id_;
}

void Engine::cancel(RequestId id) {
  for (Sequences* list : {&waiting_, &running_}) {
    for (const auto& sequence : *list) {
      if (sequence->id == id) {
        sequence->generation.cancel();
      }
    }
  }
  if (!in_step_) {
    sweep();
  }
}

bool Engine::step() {
  in_step_ = true;
  admit();
  try {
    compute_step();
  } catch (...) {  // no memory to choose what to compute
    for (const auto& sequence : running_) {
      sequence->generation.fail(std::current_exception());
    }
  }
  ++state_.steps;
  in_step_ = false;
  sweep();
  if (failed_steps_ >= kMaxFailedSteps) {
    std::rethrow_exception(last_error_);
  }
  return !waiting_.empty() || !running_.empty();
}

// Where results must not depend on what shares a step, prompts take turns with decoding.
void Engine::compute_step() {
  const auto prefills = [](const auto& sequence) { return sequence->uncomputed() > 1; };
  const bool prefill = std::any_of(running_.begin(), running_.end(), prefills);
  const bool decode = !std::all_of(running_.begin(), running_.end(), prefills);
  const bool turns = prompts_alone() && prefill && decode;
  std::vector<Sequence*> chosen;
  if (!turns || decode_next_) {
    choose_decoding(chosen);
  }
  const auto decoding = static_cast<std::size_t>(ssize(chosen));
  if (!turns || !decode_next_) {
    choose_prompts(chosen);
  }
  decode_next_ = turns && !decode_next_;
  compute(chosen, decoding);
}

bool Engine::prompts_alone() const {
  return options_.deterministic && !runner_->rows_are_independent();
}

// In order: nobody overtakes a long prompt. Each running sequence is left a page to go on with.
void Engine::admit() {
  while (!waiting_.empty() && ssize(running_) < options_.max_batch) {
    Sequence& next = *waiting_.front();
    try {
      if (!next.generation.finished() && !start(next)) {
        return;
      }
    } catch (...) {
      next.generation.fail(std::current_exception());
    }
    running_.splice(running_.end(), waiting_, waiting_.begin());
  }
}

bool Engine::start(Sequence& sequence) {
  find_prefix(sequence);
  const std::int64_t missing = ops::pages_for(sequence.generation.length()) - ssize(sequence.pages);
  if (missing > pages_.free() - ssize(running_)) {
    release_pages(sequence);
    return false;
  }
  reserve(sequence, sequence.generation.length());
  if (sequence.generation.completion().tokens.empty()) {
    const std::int64_t prompt = sequence.generation.prompt_length();
    sequence.generation.admit(sequence.computed);
    state_.prompt_tokens += prompt;
    state_.prefix_queries += options_.prefix_cache ? prompt : 0;
    state_.prefix_hits += sequence.computed;
  }
  return true;
}

// The last page first: of a prefix that is kept, its end goes before its beginning.
void Engine::release_pages(Sequence& sequence) {
  while (!sequence.pages.empty()) {
    pages_.release(sequence.pages.back());
    sequence.pages.pop_back();
  }
  sequence.computed = 0;
  sequence.published = 0;
}

// Back to the head of the queue, to be computed again.
void Engine::preempt(Sequence& sequence) {
  release_pages(sequence);
  if (drafts_) {
    drafts_->forget(sequence.id);
  }
  const auto at = std::find_if(running_.begin(), running_.end(),
                               [&](const auto& each) { return each.get() == &sequence; });
  waiting_.splice(waiting_.begin(), running_, at);
  ++state_.preemptions;
}

// False when the pages run out; those that were taken stay.
bool Engine::reserve(Sequence& sequence, std::int64_t tokens) {
  sequence.pages.reserve(static_cast<std::size_t>(ops::pages_for(tokens)));
  while (ssize(sequence.pages) < ops::pages_for(tokens)) {
    const std::optional<PageId> page = pages_.take();
    if (!page) {
      return false;
    }
    sequence.pages.push_back(*page);
  }
  return true;
}

// False when it had to give way itself.
bool Engine::reserve_or_preempt(Sequence& sequence) {
  while (!reserve(sequence, sequence.generation.length())) {
    Sequence& last = *running_.back();
    preempt(last);
    if (&last == &sequence) {
      return false;
    }
  }
  return true;
}

void Engine::choose_prompts(std::vector<Sequence*>& chosen) {
  std::int64_t left = options_.prefill_rows;
  for (const auto& sequence : running_) {
    if (left == 0) {
      return;
    }
    if (sequence->uncomputed() <= 1 || sequence->generation.finished()) {
      continue;
    }
    const bool scored = sequence->generation.request().prompt_log_probabilities.has_value();
    sequence->rows = std::min({left, sequence->uncomputed(), scored ? kScoredRows : left});
    left = prompts_alone() ? 0 : left - sequence->rows;
    chosen.push_back(sequence.get());
  }
}

void Engine::choose_decoding(std::vector<Sequence*>& chosen) {
  std::vector<Sequence*> candidates;
  for (const auto& each : running_) {
    if (each->uncomputed() == 1 && !each->generation.finished()) {
      candidates.push_back(each.get());
    }
  }
  for (Sequence* sequence : candidates) {
    const bool preempted = sequence->pages.empty();  // for one of those before it
    if (!preempted && reserve_or_preempt(*sequence)) {
      sequence->rows = 1;
      chosen.push_back(sequence);
    }
  }
}

// Guesses take pages that are free, nobody's.
void Engine::draft(std::span<Sequence* const> sequences) {
  std::vector<DraftRequest> requests;
  for (Sequence* sequence : sequences) {
    const Generation& generation = sequence->generation;
    const std::int64_t wanted = std::min(drafts_->most(), generation.room() - 1);
    reserve(*sequence, generation.length() + wanted);
    const std::int64_t room = ssize(sequence->pages) * kPageTokens - generation.length();
    requests.push_back({sequence->id, generation.tokens(), std::min(wanted, room)});
  }
  std::vector<std::vector<std::int32_t>> drafts;
  drafts_->draft(requests, drafts);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    sequences[i]->drafts = std::move(drafts[i]);
    state_.drafted_tokens += ssize(sequences[i]->drafts);
  }
}

// Computes `rows` tokens of each sequence and its drafts, and takes what comes of it. The first
// `decoding` decode. If they fail beside prompts, which may need too much memory, they go alone.
void Engine::compute(std::span<Sequence* const> sequences, std::size_t decoding) {
  if (sequences.empty()) {
    return;
  }
  std::exception_ptr failure;
  try {
    forward(sequences, decoding);
    failed_steps_ = 0;
  } catch (...) {  // nobody knows what was computed
    failure = std::current_exception();
  }
  for (Sequence* sequence : sequences) {
    sequence->drafts.clear();
  }
  if (failure && decoding > 0 && decoding < sequences.size()) {
    compute(sequences.first(decoding), decoding);
    compute(sequences.subspan(decoding), 0);
  } else if (failure) {
    note_failure(failure);
    for (Sequence* sequence : sequences) {
      sequence->generation.fail(failure);
    }
  }
}

void Engine::note_failure(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    return;
  } catch (const core::Error& known) {
    if (known.kind() == ErrorKind::kOutOfMemory) {
      return;
    }
  } catch (...) {
  }
  ++failed_steps_;
  last_error_ = error;
}

void Engine::forward(std::span<Sequence* const> sequences, std::size_t decoding) {
  if (drafts_ && decoding > 0) {
    draft(sequences.first(decoding));
  }
  std::vector<Slice> slices;
  bool whole_rows = false;
  std::int64_t most = 1;
  for (Sequence* sequence : sequences) {
    const Generation& generation = sequence->generation;
    const auto tokens = generation.tokens().subspan(static_cast<std::size_t>(sequence->computed),
                                                    static_cast<std::size_t>(sequence->rows));
    sequence->step.assign(tokens.begin(), tokens.end());
    sequence->step.insert(sequence->step.end(), sequence->drafts.begin(), sequence->drafts.end());
    const bool scored = generation.wants_prompt_row(sequence->computed + 1);
    const bool ends = sequence->rows == sequence->uncomputed();
    sequence->logits = scored ? sequence->rows : ends ? 1 + ssize(sequence->drafts) : 0;
    slices.push_back({sequence->pages, sequence->computed, sequence->step, sequence->logits,
                      std::clamp<std::int64_t>(generation.prompt_length() - sequence->computed, 0,
                                               sequence->rows)});
    whole_rows = whole_rows || scored || generation.needs_whole_rows();
    const std::int64_t wanted = generation.wanted();
    most = wanted == 0 || most == 0 ? 0 : std::max(most, wanted);
  }
  std::int64_t row = 0;
  if (whole_rows) {
    const LogitsView logits = runner_->forward(slices);
    for (Sequence* sequence : sequences) {
      take_results(*sequence, [&](std::int64_t i) { return logits.row(row + i); });
      row += sequence->logits;
    }
    return;
  }
  runner_->forward_ranked(slices, most, ranked_);
  const std::int64_t rows =
      std::transform_reduce(slices.begin(), slices.end(), std::int64_t{0}, std::plus<>(),
                            [](const Slice& slice) { return slice.logits; });
  const std::int64_t each = rows == 0 ? 0 : ssize(ranked_) / rows;
  for (Sequence* sequence : sequences) {
    take_results(*sequence, [&](std::int64_t i) {
      return RankedTokens(ranked_).subspan(static_cast<std::size_t>((row + i) * each),
                                           static_cast<std::size_t>(each));
    });
    row += sequence->logits;
  }
}

// What the step's rows of a sequence say: row(i) is its i-th row of logits.
template <typename Row>
void Engine::take_results(Sequence& sequence, Row row) {
  Generation& generation = sequence.generation;
  if (generation.finished()) {  // cancelled by another's callback
    return;
  }
  try {
    const std::int64_t position = sequence.computed;
    const bool ends = sequence.rows == sequence.uncomputed();
    if constexpr (std::is_same_v<decltype(row(0)), std::span<const float>>) {
      for (std::int64_t i = 0; i < sequence.rows; ++i) {
        if (generation.wants_prompt_row(position + i + 1)) {
          generation.record_prompt(position + i + 1, row(i));
        }
      }
    }
    sequence.computed += sequence.rows;
    const std::int64_t checked = ends ? 1 + ssize(sequence.drafts) : 0;
    for (std::int64_t i = 0; i < checked && !generation.finished(); ++i) {
      const std::int64_t before = ssize(generation.completion().tokens);
      generation.accept(row(sequence.logits - checked + i));
      state_.generated_tokens += ssize(generation.completion().tokens) - before;
      const auto at = static_cast<std::size_t>(i);
      if (i + 1 == checked || generation.tokens().back() != sequence.drafts[at] ||
          generation.finished()) {
        break;
      }
      ++sequence.computed;  // the draft was right, so its keys and values are
      ++state_.accepted_drafts;
    }
    publish(sequence);
  } catch (...) {
    generation.fail(std::current_exception());
  }
}

void Engine::sweep() {
  for (Sequences* list : {&waiting_, &running_}) {
    for (auto at = list->begin(); at != list->end();) {
      if (!(*at)->generation.finished()) {
        ++at;
        continue;
      }
      release_pages(**at);
      if (drafts_) {
        drafts_->forget((*at)->id);
      }
      at = list->erase(at);
    }
  }
}

EngineState Engine::state() const {
  EngineState state = state_;
  state.running = ssize(running_);
  state.waiting = ssize(waiting_);
  state.pages = pages_.size();
  state.pages_in_use = pages_.size() - pages_.free();
  return state;
}

}  // namespace nibble::engine
