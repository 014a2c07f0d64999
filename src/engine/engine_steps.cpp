#include <algorithm>
#include <exception>
#include <functional>
#include <new>
#include <numeric>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "engine/engine.h"
#include "engine/engine_sequence.h"

// What a step computes, and what becomes of its results.
namespace nibble::engine {
namespace {

using core::ErrorKind;
using std::ssize;

constexpr std::int64_t kScoredRows = 64;  // of a prompt whose tokens get records, in one step

}  // namespace

bool Engine::prompts_alone() const {
  return options_.deterministic && !runner_->rows_are_independent();
}

// What the next step computes, behind those under way: first what decodes. Where results must not
// depend on what shares a step, prompts take turns with decoding.
Engine::Parts Engine::choose() {
  bool prefill = false;
  bool decode = false;
  for (const auto& sequence : running_) {
    if (sequence->goes_on()) {
      (sequence->uncomputed() > 1 ? prefill : decode) = true;
    }
  }
  const bool turns = prompts_alone() && prefill && decode;
  Parts chosen;
  if (!turns || decode_next_) {
    choose_decoding(chosen);
  }
  if (!turns || !decode_next_) {
    choose_prompts(chosen);
  }
  decode_next_ = turns && !decode_next_;
  return chosen;
}

void Engine::choose_prompts(Parts& chosen) {
  std::int64_t left = options_.prefill_rows;
  for (const auto& sequence : running_) {
    if (left == 0) {
      return;
    }
    if (sequence->uncomputed() <= 1 || sequence->generation.finished()) {
      continue;
    }
    const bool scored = sequence->generation.request().prompt_log_probabilities.has_value();
    Part part;
    part.sequence = sequence.get();
    part.rows = std::min({left, sequence->uncomputed(), scored ? kScoredRows : left});
    left = prompts_alone() ? 0 : left - part.rows;
    chosen.push_back(std::move(part));
  }
}

void Engine::choose_decoding(Parts& chosen) {
  std::vector<Sequence*> candidates;
  for (const auto& each : running_) {
    if (each->uncomputed() == 1 && each->goes_on()) {
      candidates.push_back(each.get());
    }
  }
  for (Sequence* sequence : candidates) {
    const bool preempted = sequence->pages.empty();  // for one of those before it
    if (!preempted && reserve_or_preempt(*sequence)) {
      Part part;
      part.sequence = sequence;
      part.decodes = true;
      part.rows = 1;
      chosen.push_back(std::move(part));
    }
  }
}

// Guesses take pages that are free, nobody's.
void Engine::draft(std::span<Part> parts) {
  std::vector<DraftRequest> requests;
  for (const Part& part : parts) {
    Sequence& sequence = *part.sequence;
    const Generation& generation = sequence.generation;
    const std::int64_t wanted = std::min(drafts_->most(), generation.room() - 1);
    reserve(sequence, generation.length() + wanted);
    const std::int64_t room = ssize(sequence.pages) * kPageTokens - generation.length();
    requests.push_back({sequence.id, generation.tokens(), std::min(wanted, room)});
  }
  std::vector<std::vector<std::int32_t>> drafts;
  drafts_->draft(requests, drafts);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].drafts = std::move(drafts[i]);
    state_.drafted_tokens += ssize(parts[i].drafts);
  }
}

// Begins the parts: what the runner is to compute of them.
std::vector<Slice> Engine::slices_of(std::span<Part> parts) {
  std::vector<Slice> slices;
  for (Part& part : parts) {
    const Sequence& sequence = *part.sequence;
    const Generation& generation = sequence.generation;
    part.position = sequence.computed;
    part.ends = part.rows == sequence.uncomputed();
    if (sequence.unseen > 0) {
      part.tokens = {token_of_row(sequence.row)};
    } else {
      const auto tokens = generation.tokens().subspan(static_cast<std::size_t>(part.position),
                                                      static_cast<std::size_t>(part.rows));
      part.tokens.assign(tokens.begin(), tokens.end());
      part.tokens.insert(part.tokens.end(), part.drafts.begin(), part.drafts.end());
    }
    const bool scored = generation.wants_prompt_row(part.position + 1);
    part.logits = scored ? part.rows : part.ends ? 1 + ssize(part.drafts) : 0;
    slices.push_back(
        {sequence.pages, part.position, part.tokens, part.logits,
         std::clamp<std::int64_t>(generation.prompt_length() - part.position, 0, part.rows)});
  }
  return slices;
}

// Whether the next step can be begun before the results of the last one are taken: the device can
// choose the tokens that all sequences go on with.
bool Engine::steps_ahead() const {
  return runner_->ahead() != nullptr && !drafts_ &&
         std::all_of(running_.begin(), running_.end(),
                     [](const auto& sequence) { return sequence->generation.draws_alone(); });
}

// Of each row; none where all take the first token.
std::vector<ops::TokenDraw> Engine::draws_of(std::span<const Part> parts) {
  std::vector<ops::TokenDraw> draws;
  bool any = false;
  for (const Part& part : parts) {
    const Sequence& sequence = *part.sequence;
    if (part.logits > 0) {
      draws.push_back(sequence.generation.draw_after(sequence.unseen));
      any = any || sequence.generation.wanted() != 1;
    }
  }
  if (!any) {
    draws.clear();
  }
  return draws;
}

void Engine::step_ahead() {
  if (under_way_.empty()) {
    Parts first = choose();
    if (!begin_ahead(first)) {
      compute(first);
      return;
    }
    under_way_ = std::move(first);
  }
  Parts next = choose();
  if (!begin_ahead(next)) {
    next.clear();  // chosen again by the next step, whose failure counts
  }
  finish(std::exchange(under_way_, std::move(next)));
}

bool Engine::begin_ahead(Parts& parts) {
  if (parts.empty()) {
    return false;
  }
  try {
    const std::vector<Slice> slices = slices_of(parts);
    runner_->ahead()->begin(slices, draws_of(parts));
  } catch (...) {
    return false;
  }
  std::int64_t row = 0;
  for (const Part& part : parts) {
    Sequence& sequence = *part.sequence;
    sequence.computed += part.rows;
    ++sequence.steps;
    if (part.ends) {
      ++sequence.unseen;
      sequence.row = row;
    }
    row += part.logits;
  }
  return true;
}

// Takes what comes of the parts, which are those of the step that was begun first.
void Engine::finish(Parts parts) {
  std::exception_ptr failure;
  try {
    runner_->ahead()->finish(ranked_);
    failed_steps_ = 0;
  } catch (...) {
    failure = std::current_exception();
  }
  for (const Part& part : parts) {
    --part.sequence->steps;
    part.sequence->unseen -= part.ends ? 1 : 0;
  }
  if (failure) {
    give_up(parts, failure);
  } else {
    take_ranked(parts);
  }
}

void Engine::finish_under_way() {
  if (!under_way_.empty()) {
    finish(std::exchange(under_way_, {}));
  }
}

// Ends a step under way of which nobody waits for anything.
void Engine::finish_unwanted() {
  if (std::all_of(under_way_.begin(), under_way_.end(),
                  [](const Part& part) { return part.sequence->generation.finished(); })) {
    finish_under_way();
  }
}

// Computes the parts and takes what comes of it. If those that decode fail beside prompts, which
// may need too much memory, they go alone.
void Engine::compute(std::span<Part> parts) {
  if (parts.empty()) {
    return;
  }
  std::exception_ptr failure;
  try {
    forward(parts);
    failed_steps_ = 0;
  } catch (...) {  // nobody knows what was computed
    failure = std::current_exception();
  }
  if (!failure) {
    return;
  }
  for (Part& part : parts) {
    part.drafts.clear();
  }
  const auto prompts =
      std::find_if(parts.begin(), parts.end(), [](const Part& part) { return !part.decodes; });
  const auto decoding = static_cast<std::size_t>(prompts - parts.begin());
  if (decoding > 0 && decoding < parts.size()) {
    compute(parts.first(decoding));
    compute(parts.subspan(decoding));
  } else {
    give_up(parts, failure);
  }
}

void Engine::give_up(std::span<Part> parts, const std::exception_ptr& failure) {
  note_failure(failure);
  for (const Part& part : parts) {
    part.sequence->generation.fail(failure);
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

void Engine::forward(std::span<Part> parts) {
  const auto decoding =
      std::count_if(parts.begin(), parts.end(), [](const Part& part) { return part.decodes; });
  if (drafts_ && decoding > 0) {
    draft(parts.first(static_cast<std::size_t>(decoding)));
  }
  const std::vector<Slice> slices = slices_of(parts);
  bool whole_rows = false;
  std::int64_t most = 1;
  for (const Part& part : parts) {
    const Generation& generation = part.sequence->generation;
    whole_rows = whole_rows || generation.wants_prompt_row(part.position + 1) ||
                 generation.needs_whole_rows();
    most = std::max(most, generation.wanted());
  }
  LogitsView logits;
  if (whole_rows) {
    logits = runner_->forward(slices);
  } else {
    runner_->forward_ranked(slices, most, ranked_);
  }
  for (const Part& part : parts) {
    part.sequence->computed += part.rows;
  }
  if (!whole_rows) {
    take_ranked(parts);
    return;
  }
  std::int64_t row = 0;
  for (Part& part : parts) {
    take_results(part, [&](std::int64_t i) { return logits.row(row + i); });
    row += part.logits;
  }
}

// Of `ranked_`, as many tokens for each row.
void Engine::take_ranked(std::span<Part> parts) {
  const std::int64_t rows =
      std::transform_reduce(parts.begin(), parts.end(), std::int64_t{0}, std::plus<>(),
                            [](const Part& part) { return part.logits; });
  const std::int64_t each = rows == 0 ? 0 : ssize(ranked_) / rows;
  std::int64_t row = 0;
  for (Part& part : parts) {
    take_results(part, [&](std::int64_t i) {
      return RankedTokens(ranked_).subspan(static_cast<std::size_t>((row + i) * each),
                                           static_cast<std::size_t>(each));
    });
    row += part.logits;
  }
}

// What the step's rows of a sequence say: row(i) is its i-th row of logits.
template <typename Row>
void Engine::take_results(Part& part, Row row) {
  Sequence& sequence = *part.sequence;
  Generation& generation = sequence.generation;
  if (generation.finished()) {  // cancelled by another's callback
    return;
  }
  try {
    if constexpr (std::is_same_v<decltype(row(0)), std::span<const float>>) {
      for (std::int64_t i = 0; i < part.rows; ++i) {
        if (generation.wants_prompt_row(part.position + i + 1)) {
          generation.record_prompt(part.position + i + 1, row(i));
        }
      }
    }
    std::int64_t known = part.position + part.rows;  // tokens whose keys and values are there
    const std::int64_t checked = part.ends ? 1 + ssize(part.drafts) : 0;
    for (std::int64_t i = 0; i < checked && !generation.finished(); ++i) {
      const std::int64_t before = ssize(generation.completion().tokens);
      generation.accept(row(part.logits - checked + i));
      state_.generated_tokens += ssize(generation.completion().tokens) - before;
      const auto at = static_cast<std::size_t>(i);
      if (i + 1 == checked || generation.tokens().back() != part.drafts[at] ||
          generation.finished()) {
        break;
      }
      ++known;  // the draft was right
      ++sequence.computed;
      ++state_.accepted_drafts;
    }
    publish(sequence, std::min(known, sequence.computed));  // none, where it was preempted since
  } catch (...) {
    generation.fail(std::current_exception());
  }
}

}  // namespace nibble::engine
