#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_type.h"
#include "text/regex/regex.h"
#include "text/span.h"

namespace nibble::text {

/// A text on its way to the model: valid UTF-8 and the words that it is cut into so far, in order.
/// Words are not empty; what lies between them is dropped.
struct Words {
  std::string text;
  std::vector<Span> spans;
  bool at_origin = true;            // the text starts where the whole input starts
  PatternBudget* budget = nullptr;  // of all patterns; without one each step has its own
};

/// A step that cuts words into smaller ones, or rewrites them. Immutable, thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Words& words) const = 0;

  /// What is still there behind it, in words: all of the text (or more bytes in its place), all of
  /// it as characters of the byte alphabet, or not all.
  enum class Keeps { kNotAll, kText, kByteAlphabet };
  virtual Keeps keeps() const { return Keeps::kNotAll; }
};

using PreTokenizerPtr = std::unique_ptr<const PreTokenizer>;

/// The "pre_tokenizer" of a tokenizer.json; nullptr for null. Throws kInvalidModel for an unknown
/// or malformed one, naming it.
PreTokenizerPtr pre_tokenizer_from_json(const core::Json& json, std::string_view what);

PreTokenizerPtr make_pre_tokenizer_sequence(std::vector<PreTokenizerPtr> steps);

/// What becomes of the delimiters, for "the-final--countdown" cut at '-':
enum class SplitBehavior {
  kRemoved,             // the|final|countdown
  kIsolated,            // the|-|final|-|-|countdown
  kMergedWithPrevious,  // the-|final-|-|countdown
  kMergedWithNext,      // the|-final|-|-countdown
  kContiguous,          // the|-|final|--|countdown
};

/// A stretch of a word: a delimiter or what lies between two.
struct Part {
  Span span;
  bool is_delimiter = false;
};

/// Appends to `spans` the words that the parts of one word (in order, covering it) become.
void append_split(const std::vector<Part>& parts, SplitBehavior behavior, std::vector<Span>& spans);

/// Cuts at the matches of a pattern, or (inverted) takes what lies between them as delimiters.
PreTokenizerPtr make_split_regex(std::string_view pattern, SplitBehavior behavior, bool invert,
                                 std::string_view what);
/// Cuts at the occurrences of a string, which must not be empty.
PreTokenizerPtr make_split_string(std::string pattern, SplitBehavior behavior, bool invert);

/// GPT-2: optionally a space before each word, optionally cut by GPT-2's pattern, then each byte as
/// a character of the byte alphabet.
PreTokenizerPtr make_byte_level(bool add_prefix_space, bool use_regex);

enum class PrependScheme { kFirst, kNever, kAlways };
/// SentencePiece's way: spaces become `replacement` (one character), one is put before the first
/// word or before all, and, if `split`, words are cut before each.
PreTokenizerPtr make_metaspace(const std::string& replacement, PrependScheme scheme, bool split);

/// Cuts at White_Space, dropping it, and isolates punctuation.
PreTokenizerPtr make_bert_pre_tokenizer();
/// Keeps runs of word characters and runs of other visible characters.
PreTokenizerPtr make_whitespace();
PreTokenizerPtr make_whitespace_split();
PreTokenizerPtr make_digits(bool individual);
PreTokenizerPtr make_punctuation(SplitBehavior behavior);

}  // namespace nibble::text
