#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/unicode/utf8.h"

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

/// Finds the matches of a pattern in one text after another. Belongs to one thread.
///
/// Time is bounded twice: each match by PCRE2's match and heap limits, and all matches together by
/// a budget that grows with the text. Exceeding either throws kFailed (a pattern of a hostile model
/// can need quadratic time even where each match is quick).
class RegexSearch {
 public:
  explicit RegexSearch(const Regex& regex);
  ~RegexSearch();
  RegexSearch(const RegexSearch&) = delete;
  RegexSearch& operator=(const RegexSearch&) = delete;

  /// Starts anew in `text`, which must be valid UTF-8 and outlive the search.
  void start(std::string_view text);

  /// The next match after the last one. An empty match directly behind the last match is skipped.
  std::optional<Span> next();

 private:
  bool find_from(std::size_t at, Span& found);
  void check_budget();

  struct State;
  const Regex& regex_;
  std::unique_ptr<State> state_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::optional<std::size_t> last_match_end_;
  std::chrono::steady_clock::time_point started_;
  std::size_t bytes_ = 0;    // of all texts so far
  std::size_t matches_ = 0;  // tried so far
};

}  // namespace nibble::text
