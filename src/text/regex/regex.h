#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/span.h"

namespace nibble::text {

/// A compiled pattern (PCRE2 with its just-in-time compiler). Immutable; any number of threads may
/// search with it at once.
class Regex {
 public:
  /// `pattern` in the syntax of Oniguruma, as in tokenizer.json; `what` names it in messages.
  /// Throws kInvalidModel for a pattern that is invalid, too long, or has no PCRE2 equivalent.
  Regex(std::string_view pattern, std::string_view what);
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

 private:
  friend class RegexSearch;
  struct Compiled;
  std::unique_ptr<const Compiled> compiled_;
  std::string what_;
};

/// What the patterns of a tokenizer may cost on one text, all of them together: time of the
/// processor that grows with the text. Patterns of a hostile file can need quadratic time even
/// where each match is quick. Belongs to one thread.
class PatternBudget {
 public:
  /// For a text of `bytes`.
  explicit PatternBudget(std::size_t bytes = 0) : bytes_(bytes) {}

  /// For more text.
  void add_bytes(std::size_t bytes) { bytes_ += bytes; }

  void spend(double seconds) { spent_ += seconds; }
  double spent() const { return spent_; }
  /// In seconds.
  double limit() const;

 private:
  std::size_t bytes_;
  double spent_ = 0;
};

/// Finds the matches of a pattern in one text after another. Belongs to one thread.
///
/// Each match is bounded by PCRE2's match and heap limits, all of them by the budget, which must
/// outlive the search. Exceeding either throws kFailed.
class RegexSearch {
 public:
  RegexSearch(const Regex& regex, PatternBudget& budget);
  ~RegexSearch();
  RegexSearch(const RegexSearch&) = delete;
  RegexSearch& operator=(const RegexSearch&) = delete;

  /// Starts anew in `text`, which must be valid UTF-8 and outlive the search.
  void start(std::string_view text);

  /// The next match after the last one. An empty match directly behind the last match is skipped.
  std::optional<Span> next();

 private:
  bool find_from(std::size_t at, Span& found);
  int match_within(std::size_t at, std::size_t last_start);
  double charge();

  struct State;
  const Regex& regex_;
  PatternBudget& budget_;
  std::unique_ptr<State> state_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::optional<std::size_t> last_match_end_;
  double charged_until_;    // the clock of the thread, in seconds
  std::size_t unread_ = 0;  // calls of the matcher since the clock was read
};

}  // namespace nibble::text
