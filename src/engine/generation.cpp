#include "engine/generation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.h"
#include "engine/log_probabilities.h"

namespace nibble::engine {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

std::vector<std::int32_t> end_tokens(const Request& request, const models::Model& model) {
  std::vector<std::int32_t> ends = request.stop_tokens;
  if (!request.ignore_end_tokens) {
    ends.insert(ends.end(), model.end_tokens.begin(), model.end_tokens.end());
  }
  return ends;
}

}  // namespace

std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kFailed:
      return "failed";
  }
  return "";
}

Generation::Generation(Request request, std::int64_t limit, const models::Model& model,
                       const std::shared_ptr<const text::TokenTree>& tree)
    : request_(std::move(request)),
      limit_(limit),
      ends_(end_tokens(request_, model)),
      tokens_(request_.prompt),
      sampler_(request_.sampling),
      penalties_(request_.sampling, request_.prompt),
      network_(model.tokenizer),
      stop_(request_.stop) {
  if (request_.grammar) {
    vocabulary_ = tree->vocabulary();
    constraint_ = std::make_unique<text::GrammarConstraint>(request_.grammar, tree);
  }
}

bool Generation::may_end() const {
  return std::cmp_greater_equal(completion_.tokens.size(), request_.min_tokens);
}

bool Generation::is_end(std::int32_t token) const {
  return std::find(ends_.begin(), ends_.end(), token) != ends_.end();
}

bool Generation::needs_whole_rows() const {
  return changes_rows() || wanted() == 0;
}

// Or reads more of them than who comes first.
bool Generation::changes_rows() const {
  return constraint_ || penalties_.any() || request_.log_probabilities || !may_end();
}

// Leaves what may come next: what goes on with the grammar, and end tokens where it is complete and
// the text is long enough.
void Generation::forbid(std::span<float> logits) {
  const bool ends_here = may_end() && (!constraint_ || constraint_->complete());
  std::vector<float> of_ends;
  for (const std::int32_t end : ends_) {
    const bool known = end >= 0 && std::cmp_less(end, logits.size());
    of_ends.push_back(known && ends_here ? logits[static_cast<std::size_t>(end)] : kNever);
  }
  if (constraint_) {
    const text::TokenMask& mask = constraint_->mask();
    for (std::size_t id = 0; id < logits.size(); ++id) {
      if (std::cmp_greater_equal(id, vocabulary_) ||
          !text::allows(mask, static_cast<std::int32_t>(id))) {
        logits[id] = kNever;
      }
    }
  }
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    if (ends_[i] >= 0 && std::cmp_less(ends_[i], logits.size())) {
      logits[static_cast<std::size_t>(ends_[i])] = of_ends[i];
    }
  }
}

void Generation::accept(std::span<const float> logits) {
  if (changes_rows()) {
    row_.assign(logits.begin(), logits.end());
    penalties_.apply(row_);
    forbid(row_);
  }
  const std::span<const float> row = changes_rows() ? std::span<const float>(row_) : logits;
  if (const std::optional<std::int32_t> token = choose(row)) {
    return accept_token(token, logits);
  }
  core::require(constraint_ && constraint_->complete(), core::ErrorKind::kFailed,
                "no token of the model goes on with the text of the grammar");
  accept_token(std::nullopt, logits);  // nothing may come behind a text of the grammar
}

// Nothing where no token may come. Throws kFailed for NaN.
std::optional<std::int32_t> Generation::choose(std::span<const float> row) {
  if (wanted() == 0) {
    return sampler_.sample_row(row);
  }
  rank(row, wanted(), ranked_);
  return ranked_.empty() ? std::nullopt : std::optional(sampler_.sample(ranked_));
}

void Generation::accept(RankedTokens ranked) {
  if (ranked.empty() || ranked.front().id < 0) {
    fail_with_nan();
  }
  accept_token(sampler_.sample(ranked), {});
}

void Generation::admit(std::int64_t cached_tokens) {
  completion_.cached_tokens = cached_tokens;
  if (completion_.admitted == Completion::Clock::time_point()) {
    completion_.admitted = Completion::Clock::now();
  }
}

void Generation::accept_token(std::optional<std::int32_t> token, std::span<const float> logits) {
  completion_.last_token = Completion::Clock::now();
  if (completion_.tokens.empty()) {
    completion_.first_token = completion_.last_token;
  }
  if (!token || is_end(*token)) {
    return finish(FinishReason::kStop);
  }
  if (constraint_) {
    constraint_->accept(*token);
  }
  penalties_.accept(*token);
  tokens_.push_back(*token);
  completion_.tokens.push_back(*token);
  if (request_.log_probabilities) {
    completion_.records.push_back(record_of(logits, *token, *request_.log_probabilities));
  }
  emit(stop_.push(network_.push(*token)));
  if (stop_.found()) {
    finish(FinishReason::kStop);
  } else if (room() <= 0) {
    finish(FinishReason::kLength);
  }
}

bool Generation::wants_prompt_row(std::int64_t index) const {
  return request_.prompt_log_probabilities && index < prompt_length() &&
         index > static_cast<std::int64_t>(completion_.prompt_records.size());
}

void Generation::record_prompt(std::int64_t index, std::span<const float> logits) {
  completion_.prompt_records.push_back(record_of(logits, tokens_[static_cast<std::size_t>(index)],
                                                 *request_.prompt_log_probabilities));
}

void Generation::cancel() {
  finish(FinishReason::kCancelled);
}

void Generation::fail(std::exception_ptr error) {
  completion_.error = std::move(error);
  finish(FinishReason::kFailed);
}

void Generation::emit(const std::string& text) {
  completion_.text += text;
  if (text.empty() || !request_.on_piece) {
    return;
  }
  const std::span<const TokenRecord> records(completion_.records);
  const std::size_t sent = std::exchange(sent_records_, records.size());
  request_.on_piece({text, records.subspan(sent)});
}

void Generation::finish(FinishReason reason) {
  if (finished_) {
    return;
  }
  finished_ = true;
  completion_.reason = reason;
  if (!stop_.found() && reason != FinishReason::kFailed) {
    try {
      emit(stop_.push(network_.flush()));
      emit(stop_.flush());
    } catch (...) {
      completion_.reason = FinishReason::kFailed;
      completion_.error = std::current_exception();
    }
  }
  if (request_.on_finish) {
    request_.on_finish(completion_);
  }
}

}  // namespace nibble::engine
