#include <algorithm>

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/unistr.h>

#include "characters/utf8.h"
#include "text/normalize/icu_status.h"
#include "text/normalize/normalizer.h"

namespace nibble::text {
namespace {

using core::ErrorKind;

const icu::Normalizer2& instance(bool compatible, UNormalization2Mode mode) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* found =
      icu::Normalizer2::getInstance(nullptr, compatible ? "nfkc" : "nfc", mode, status);
  require_icu(status, "the Unicode normalization data of ICU are missing");
  return *found;  // owned by ICU, lives as long as the program
}

// The forms of UAX 15 in n log n steps.
//
// ICU sorts the marks behind a letter by insertion: n of them in wrong order take n * n steps. So
// it gets only what lies between long segments. A segment is a stretch of text whose characters
// are sorted and composed with none outside of it; the long ones are normalized here, from ICU's
// tables.
class UnicodeNormalizer : public Normalizer {
 public:
  explicit UnicodeNormalizer(UnicodeForm form)
      : composes_(form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc),
        form_(instance(is_compatible(form), composes_ ? UNORM2_COMPOSE : UNORM2_DECOMPOSE)),
        decompose_(instance(is_compatible(form), UNORM2_DECOMPOSE)) {}

  // Two bytes stand for three decomposed characters at the most (U+0390), three for four; each of
  // those may have been one of four bytes.
  std::optional<std::size_t> max_shrink() const override { return 6; }

  std::string apply(std::string text, const NormalizeScope& scope) const override {
    core::require(text.size() <= static_cast<std::size_t>(INT32_MAX), ErrorKind::kFailed,
                  "tokenizer: a text of {} bytes is too long to normalize", text.size());
    Span segment = next_long_segment(text, 0);
    if (segment.begin == text.size() && is_normalized(text)) {
      return text;
    }
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
      append_by_icu(out, std::string_view(text).substr(at, segment.begin - at));
      append_sorted(out, slice(text, segment));
      check_growth(out.size(), scope);
      at = segment.end;
      segment = next_long_segment(text, at);
    }
    return out;
  }

 private:
  struct Character {
    char32_t value = 0;
    std::uint8_t combining_class = 0;
  };

  static bool is_compatible(UnicodeForm form) {
    return form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
  }

  bool begins_segment(char32_t c) const {
    constexpr char32_t kFirstMark = 0x300;
    return c < kFirstMark || form_.hasBoundaryBefore(static_cast<UChar32>(c)) != 0;
  }

  // The next segment of more than kMaxByInsertion characters; empty at the end where there is none.
  Span next_long_segment(std::string_view text, std::size_t from) const {
    // Text that is exchanged has at most 30 marks in a row (UAX 15, "stream-safe").
    constexpr std::size_t kMaxByInsertion = 32;
    std::size_t begin = from;
    std::size_t characters = 0;
    std::size_t at = from;
    while (at < text.size()) {
      const characters::CodePoint c = characters::decode_utf8(text, at);
      if (begins_segment(c.value)) {
        if (characters > kMaxByInsertion) {
          break;
        }
        begin = at;
        characters = 0;
      }
      ++characters;
      at += c.bytes;
    }
    return characters > kMaxByInsertion ? Span{begin, at} : Span{text.size(), text.size()};
  }

  static icu::StringPiece piece_of(std::string_view text) {
    return {text.data(), static_cast<std::int32_t>(text.size())};
  }

  bool is_normalized(std::string_view text) const {
    UErrorCode status = U_ZERO_ERROR;
    return form_.isNormalizedUTF8(piece_of(text), status) != 0 && U_SUCCESS(status);
  }

  void append_by_icu(std::string& out, std::string_view text) const {
    UErrorCode status = U_ZERO_ERROR;
    icu::StringByteSink<std::string> sink(&out);
    form_.normalizeUTF8(0, piece_of(text), sink, nullptr, status);
    require_icu(status, "Unicode normalization failed");
  }

  void append_sorted(std::string& out, std::string_view segment) const {
    std::vector<Character> characters = decomposed(segment);
    const auto is_starter = [](const Character& c) { return c.combining_class == 0; };
    for (auto run = characters.begin(); run != characters.end();) {
      const auto end = std::find_if(run, characters.end(), is_starter);
      std::stable_sort(run, end, [](const Character& a, const Character& b) {
        return a.combining_class < b.combining_class;
      });
      run = std::find_if_not(end, characters.end(), is_starter);
    }
    if (composes_) {
      compose(characters);
    }
    for (const Character& c : characters) {
      characters::append_utf8(out, c.value);
    }
  }

  std::vector<Character> decomposed(std::string_view text) const {
    std::vector<Character> characters;
    icu::UnicodeString parts;
    const auto add = [&](UChar32 c) {
      characters.push_back({static_cast<char32_t>(c), decompose_.getCombiningClass(c)});
    };
    for (std::size_t at = 0; at < text.size();) {
      const characters::CodePoint c = characters::decode_utf8(text, at);
      at += c.bytes;
      if (decompose_.getDecomposition(static_cast<UChar32>(c.value), parts) == 0) {
        add(static_cast<UChar32>(c.value));
        continue;
      }
      for (std::int32_t i = 0; i < parts.length(); i = parts.moveIndex32(i, 1)) {
        add(parts.char32At(i));
      }
    }
    return characters;
  }

  // UAX 15, D117: a character joins the last starter unless something between them blocks it.
  void compose(std::vector<Character>& characters) const {
    std::size_t kept = 0;
    std::optional<std::size_t> starter;
    for (const Character c : characters) {
      const bool open = starter && (*starter + 1 == kept ||
                                    characters[kept - 1].combining_class < c.combining_class);
      const UChar32 joined =
          open ? form_.composePair(static_cast<UChar32>(characters[*starter].value),
                                   static_cast<UChar32>(c.value))
               : U_SENTINEL;
      if (joined >= 0) {
        characters[*starter].value = static_cast<char32_t>(joined);
        continue;
      }
      if (c.combining_class == 0) {
        starter = kept;
      }
      characters[kept++] = c;
    }
    characters.resize(kept);
  }

  bool composes_;
  const icu::Normalizer2& form_;
  const icu::Normalizer2& decompose_;
};

}  // namespace

NormalizerPtr make_unicode_form(UnicodeForm form) {
  return std::make_unique<UnicodeNormalizer>(form);
}

}  // namespace nibble::text
