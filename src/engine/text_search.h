#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/runner.h"
#include "engine/writing_options.h"

namespace nibble::engine {

/// What an encoder-decoder wrote.
struct WrittenText {
  std::vector<std::int32_t> tokens;  // with the start token, and the end token where there is one
  float score = 0;  // of a beam search: log-probability over length to the power of the penalty
};

/// A token that continues what a row of the step before has written; -1: it begins.
struct SearchRow {
  std::int64_t parent = -1;
  std::int32_t token = 0;
};

/// Looks for one text of high probability, step by step: who has a model computes the logits behind
/// each of rows() and hands them to advance(), until the search is done.
class TextSearch {
 public:
  virtual ~TextSearch() = default;

  virtual std::span<const SearchRow> rows() const = 0;
  /// Logits [rows, vocabulary]. Throws kFailed for NaN.
  virtual void advance(const LogitsView& logits) = 0;
  virtual bool done() const = 0;
  /// The text that was found.
  virtual WrittenText result() const = 0;
};

/// The likeliest token each time where there is one beam (or, where the options say so, a drawn
/// one), else a beam search. The same ids as
/// generate() of transformers 5 for the same logits; of equal scores the first counts.
std::unique_ptr<TextSearch> make_text_search(const WritingOptions& options);

/// The search with several beams.
std::unique_ptr<TextSearch> make_beam_search(const WritingOptions& options);

/// Gives tokens that the options do not allow behind `written` a score of -infinity, and a forced
/// one 0: runs that came before, ends before min_length, the first and the last token. `scores`
/// [vocabulary].
void apply_rules(const WritingOptions& options, std::span<const std::int32_t> written,
                 std::span<float> scores);

/// Whether a text with this token at its end is finished.
bool ends_text(const WritingOptions& options, std::int32_t token, std::int64_t length);

}  // namespace nibble::engine
