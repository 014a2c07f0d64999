#include "engine/engine.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <new>
#include <utility>

#include "core/error.h"
#include "engine/engine_sequence.h"

namespace nibble::engine {
namespace {

using core::ErrorKind;
using std::ssize;

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
  if (options.swap_bytes != 0) {
    swapped_ = runner_->make_swap_space(options.swap_bytes);
    core::require(swapped_ != nullptr || !options.swap_bytes, ErrorKind::kUsage,
                  "swap space is for models on one GPU, whose memory is not the host's; leave "
                  "--swap-space out");
  }
}

Engine::~Engine() {
  if (!under_way_.empty()) {
    try {
      runner_->ahead()->finish(ranked_);
    } catch (...) {  // the runner tells its next user
    }
  }
}

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
    finish_unwanted();
    sweep();
  }
}

bool Engine::step() {
  in_step_ = true;
  admit();
  try {
    if (steps_ahead()) {
      step_ahead();
    } else {
      finish_under_way();
      Parts parts = choose();
      compute(parts);
    }
  } catch (...) {  // no memory to choose what to compute
    for (const auto& sequence : running_) {
      sequence->generation.fail(std::current_exception());
    }
  }
  finish_unwanted();
  ++state_.steps;
  in_step_ = false;
  sweep();
  if (failed_steps_ >= kMaxFailedSteps) {
    std::rethrow_exception(last_error_);
  }
  return !waiting_.empty() || !running_.empty();
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
  swap_in(sequence);
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

// Back to the head of the queue.
void Engine::preempt(Sequence& sequence) {
  swap_out(sequence);
  release_pages(sequence);
  if (drafts_) {
    drafts_->forget(sequence.id);
  }
  const auto at = std::find_if(running_.begin(), running_.end(),
                               [&](const auto& each) { return each.get() == &sequence; });
  waiting_.splice(waiting_.begin(), running_, at);
  ++state_.preemptions;
}

void Engine::swap_out(Sequence& sequence) {
  if (swapped_ == nullptr || sequence.computed == 0 || !sequence.goes_on()) {
    return;
  }
  const auto count = static_cast<std::size_t>(ops::pages_for(sequence.computed));
  try {
    sequence.swapped = swapped_->swap_out(std::span(sequence.pages).first(count));
    sequence.swapped_tokens = sequence.computed;
  } catch (const std::bad_alloc&) {  // then it is computed again
  }
}

// Behind the pages that were found.
void Engine::swap_in(Sequence& sequence) {
  if (sequence.swapped && sequence.swapped_tokens > sequence.computed) {
    const std::int64_t found = sequence.computed / kPageTokens;
    const std::int64_t kept = ops::pages_for(sequence.swapped_tokens);
    swapped_->swap_in(
        *sequence.swapped, found,
        std::span(sequence.pages)
            .subspan(static_cast<std::size_t>(found), static_cast<std::size_t>(kept - found)));
    state_.swapped_tokens += sequence.swapped_tokens - sequence.computed;
    sequence.computed = sequence.swapped_tokens;
  }
  drop_swapped(sequence);
}

void Engine::drop_swapped(Sequence& sequence) {
  if (sequence.swapped) {
    swapped_->drop(*sequence.swapped);
    sequence.swapped.reset();
  }
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
  while (!reserve(sequence, sequence.length())) {
    Sequence& last = *running_.back();
    preempt(last);
    if (&last == &sequence) {
      return false;
    }
  }
  return true;
}

// What a step under way computes stays until it has ended.
void Engine::sweep() {
  for (Sequences* list : {&waiting_, &running_}) {
    for (auto at = list->begin(); at != list->end();) {
      if (!(*at)->generation.finished() || (*at)->steps > 0) {
        ++at;
        continue;
      }
      release_pages(**at);
      drop_swapped(**at);
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
