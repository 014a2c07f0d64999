#include "characters/properties.h"
#include "characters/utf8.h"
#include "text/normalize/normalizer.h"

namespace nibble::text {
namespace {

// google-research/bert, tokenization.py, BasicTokenizer; in the order of Hugging Face's tokenizers.
class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(const BertNormalizerOptions& options)
      : options_(options), decompose_(make_unicode_form(UnicodeForm::kNfd)) {}

  std::string apply(std::string text, const NormalizeScope& scope) const override {
    text = clean(text);
    if (options_.strip_accents) {
      text = decompose_->apply(std::move(text), scope);
    }
    if (options_.strip_accents || options_.lowercase) {
      text = fold(text);
    }
    check_growth(text.size(), scope);
    return text;
  }

 private:
  static bool stays_a_space(char32_t c) { return c == '\t' || c == '\n' || c == '\r'; }

  std::string clean(std::string_view text) const {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
      const characters::CodePoint c = characters::decode_utf8(text, at);
      at += c.bytes;
      const bool space = stays_a_space(c.value) || characters::is_white_space(c.value);
      const bool dropped = c.value == 0 || c.value == 0xfffd ||
                           (characters::is_control_like(c.value) && !stays_a_space(c.value));
      if (options_.clean_text && dropped) {
        continue;
      }
      if (options_.handle_chinese_chars && characters::is_bert_cjk(c.value)) {
        out.push_back(' ');
        characters::append_utf8(out, c.value);
        out.push_back(' ');
      } else {
        characters::append_utf8(out, options_.clean_text && space ? U' ' : c.value);
      }
    }
    return out;
  }

  std::string fold(std::string_view text) const {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
      const characters::CodePoint c = characters::decode_utf8(text, at);
      at += c.bytes;
      if (options_.strip_accents && characters::is_nonspacing_mark(c.value)) {
        continue;
      }
      if (options_.lowercase) {
        characters::append_lower_case(out, c.value);
      } else {
        characters::append_utf8(out, c.value);
      }
    }
    return out;
  }

  BertNormalizerOptions options_;
  NormalizerPtr decompose_;
};

}  // namespace

NormalizerPtr make_bert_normalizer(const BertNormalizerOptions& options) {
  return std::make_unique<BertNormalizer>(options);
}

}  // namespace nibble::text
