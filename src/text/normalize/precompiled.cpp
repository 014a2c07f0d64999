#include <unicode/brkiter.h>

#include "characters/utf8.h"
#include "text/normalize/charsmap.h"
#include "text/normalize/icu_status.h"
#include "text/normalize/normalizer.h"

namespace nibble::text {
namespace {

struct CloseText {
  void operator()(UText* text) const { utext_close(text); }
};

// Calls visit(grapheme) for each extended grapheme cluster of the text.
template <typename Visit>
void for_each_grapheme(std::string_view text, Visit visit) {
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> breaks(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  const std::unique_ptr<UText, CloseText> source(
      utext_openUTF8(nullptr, text.data(), static_cast<std::int64_t>(text.size()), &status));
  if (U_SUCCESS(status)) {
    breaks->setText(source.get(), status);
  }
  require_icu(status, "the grapheme data of ICU are missing");
  std::int32_t begin = breaks->first();
  for (std::int32_t end = breaks->next(); end != icu::BreakIterator::DONE;
       begin = end, end = breaks->next()) {
    visit(text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  }
}

// As Hugging Face's tokenizers do it, which differs from SentencePiece: a grapheme of up to five
// bytes is replaced as a whole by what the *shortest* key that it starts with maps to; else each of
// its characters is looked up on its own.
class Precompiled : public Normalizer {
 public:
  Precompiled(std::string_view charsmap, std::string_view what) : charsmap_(charsmap, what) {}

  std::string apply(std::string text, const NormalizeScope& scope) const override {
    core::require(text.size() <= static_cast<std::size_t>(INT32_MAX), core::ErrorKind::kFailed,
                  "tokenizer: a text of {} bytes is too long to normalize", text.size());
    std::string out;
    out.reserve(text.size());
    for_each_grapheme(text, [&](std::string_view grapheme) {
      append(out, grapheme);
      check_growth(out.size(), scope);
    });
    return characters::is_valid_utf8(out) ? out : characters::to_valid_utf8(out);
  }

 private:
  static constexpr std::size_t kMaxWholeGraphemeBytes = 5;

  void append(std::string& out, std::string_view grapheme) const {
    if (grapheme.size() <= kMaxWholeGraphemeBytes) {
      if (const auto found = charsmap_.shortest(grapheme)) {
        out.append(found->replacement);
        return;
      }
    }
    for (std::size_t at = 0; at < grapheme.size();) {
      const std::string_view character = grapheme.substr(at, characters::utf8_bytes(grapheme[at]));
      const auto found = charsmap_.shortest(character);
      out.append(found ? found->replacement : character);
      at += character.size();
    }
  }

  Charsmap charsmap_;
};

}  // namespace

NormalizerPtr make_precompiled(std::string_view charsmap, std::string_view what) {
  return std::make_unique<Precompiled>(charsmap, what);
}

}  // namespace nibble::text
