#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_type.h"
#include "text/regex/regex.h"

namespace nibble::text {

/// What a normalizer knows of the text beside its characters.
struct NormalizeScope {
  bool at_origin = true;             // the text starts where the whole input starts
  std::size_t max_bytes = SIZE_MAX;  // a longer result is refused (files can ask for any growth)
  PatternBudget* budget = nullptr;   // of all patterns; without one each step has its own
};

/// A step that rewrites text before it is split. Immutable, thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;

  /// `text` is valid UTF-8, and so is the result. Throws kFailed when it would exceed
  /// `scope.max_bytes`.
  virtual std::string apply(std::string text, const NormalizeScope& scope) const = 0;

  /// The most bytes of a text that one byte of the result can stand for; nothing where that has no
  /// bound.
  virtual std::optional<std::size_t> max_shrink() const { return std::nullopt; }
};

using NormalizerPtr = std::unique_ptr<const Normalizer>;

/// Throws kFailed when `bytes` is more than the scope allows.
void check_growth(std::size_t bytes, const NormalizeScope& scope);

/// Bytes that a normalized text of `bytes` may have: 64 times as many, and some to start with. The
/// longest expansion of a Unicode normalization form is 11 (U+FDFA in NFKC).
std::size_t max_normalized_bytes(std::size_t bytes);

/// The "normalizer" of a tokenizer.json; nullptr for null. Throws kInvalidModel for an unknown or
/// malformed one, naming it.
NormalizerPtr normalizer_from_json(const core::Json& json, std::string_view what);

NormalizerPtr make_normalizer_sequence(std::vector<NormalizerPtr> steps);

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };
NormalizerPtr make_unicode_form(UnicodeForm form);

/// Lower case of each character, without context.
NormalizerPtr make_lowercase();
/// Removes characters of category M.
NormalizerPtr make_strip_accents();
/// Removes White_Space at the ends.
NormalizerPtr make_strip(bool left, bool right);
/// Puts `prefix` before a text that is not empty.
NormalizerPtr make_prepend(std::string prefix);
/// The control and space mapping of Google's neural machine translation ("Nmt").
NormalizerPtr make_nmt();
/// Each byte as the character of GPT-2's byte alphabet.
NormalizerPtr make_byte_level_normalizer();
/// Every occurrence of a string, which must not be empty.
NormalizerPtr make_replace(std::string pattern, std::string content);
/// Every match of a pattern.
NormalizerPtr make_replace_regex(std::string_view pattern, std::string content,
                                 std::string_view what);

struct BertNormalizerOptions {
  bool clean_text = true;            // drop control characters, make every space a ' '
  bool handle_chinese_chars = true;  // put spaces around them
  bool strip_accents = true;         // decompose and drop nonspacing marks
  bool lowercase = true;
};
NormalizerPtr make_bert_normalizer(const BertNormalizerOptions& options);

/// "Precompiled" of tokenizer.json: `charsmap` holds the decoded bytes.
NormalizerPtr make_precompiled(std::string_view charsmap, std::string_view what);

}  // namespace nibble::text
