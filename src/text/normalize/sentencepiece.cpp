#include "text/normalize/sentencepiece.h"

#include <optional>

#include "characters/utf8.h"
#include "text/byte_trie.h"
#include "text/normalize/charsmap.h"

namespace nibble::text {
namespace {

constexpr std::string_view kEscapedSpace = "\u2581";

class SentencePieceNormalizer : public Normalizer {
 public:
  SentencePieceNormalizer(const SentencePieceRules& rules, std::string_view what)
      : rules_(rules), space_(rules.escape_whitespaces ? kEscapedSpace : " ") {
    if (!rules.charsmap.empty()) {
      charsmap_.emplace(rules.charsmap, what);
    }
    std::vector<ByteTrie::Entry> verbatim;
    for (const std::string& symbol : rules.verbatim) {
      verbatim.push_back({symbol, 0});
    }
    verbatim_ = ByteTrie(std::move(verbatim));
  }

  std::optional<std::size_t> max_shrink() const override {
    return charsmap_ || rules_.remove_extra_whitespaces ? std::nullopt
                                                        : std::optional<std::size_t>(1);
  }

  std::string apply(std::string text, const NormalizeScope& scope) const override {
    std::string out;
    out.reserve(text.size() + text.size() / 2 + kEscapedSpace.size());
    append(out, skip_leading_spaces(text), scope);
    return characters::is_valid_utf8(out) ? out : characters::to_valid_utf8(out);
  }

 private:
  std::string_view skip_leading_spaces(std::string_view text) const {
    while (rules_.remove_extra_whitespaces && !text.empty()) {
      const Charsmap::Match next = rewrite_prefix(text);
      if (next.replacement != " ") {
        break;
      }
      text.remove_prefix(next.bytes);
    }
    return text;
  }

  void append(std::string& out, std::string_view text, const NormalizeScope& scope) const {
    if (text.empty()) {
      return;
    }
    const bool adds_space =
        rules_.add_dummy_prefix && (scope.at_origin || !rules_.prefix_at_origin_only);
    if (adds_space && !rules_.treat_whitespace_as_suffix) {
      out.append(space_);
    }
    bool after_space = rules_.remove_extra_whitespaces;
    while (!text.empty()) {
      const Charsmap::Match next = rewrite_prefix(text);
      after_space =
          append_rewritten(out, next.replacement, after_space) && rules_.remove_extra_whitespaces;
      check_growth(out.size(), scope);
      text.remove_prefix(next.bytes);
    }
    while (rules_.remove_extra_whitespaces && out.ends_with(space_)) {
      out.resize(out.size() - space_.size());
    }
    if (adds_space && rules_.treat_whitespace_as_suffix) {
      out.append(space_);
    }
  }

  // Returns whether the output now ends with a space of the text.
  bool append_rewritten(std::string& out, std::string_view part, bool after_space) const {
    while (after_space && part.starts_with(' ')) {
      part.remove_prefix(1);
    }
    for (const char byte : part) {
      if (byte == ' ') {
        out.append(space_);
      } else {
        out.push_back(byte);
      }
    }
    return part.empty() ? after_space : part.ends_with(' ');
  }

  // What the start of the text becomes, and how much of it.
  Charsmap::Match rewrite_prefix(std::string_view text) const {
    if (const auto symbol = verbatim_.longest_prefix(text)) {
      return {symbol->bytes, text.substr(0, symbol->bytes)};
    }
    if (charsmap_) {
      if (const auto found = charsmap_->longest(text)) {
        return *found;
      }
    }
    const std::size_t bytes = characters::utf8_bytes(text.front());
    return {bytes, text.substr(0, bytes)};
  }

  SentencePieceRules rules_;
  std::string space_;  // what a space becomes
  std::optional<Charsmap> charsmap_;
  ByteTrie verbatim_;
};

}  // namespace

NormalizerPtr make_sentencepiece_normalizer(const SentencePieceRules& rules,
                                            std::string_view what) {
  return std::make_unique<SentencePieceNormalizer>(rules, what);
}

}  // namespace nibble::text
