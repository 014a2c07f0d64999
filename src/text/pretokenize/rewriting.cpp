#include "text/byte_alphabet.h"
#include "text/pretokenize/patterns.h"
#include "text/pretokenize/pre_tokenizer.h"

namespace nibble::text {
namespace {

// Rebuilds the text from its words: `rewrite(out, word, at_origin)` appends what a word becomes.
template <typename Rewrite>
void rewrite_words(Words& words, Rewrite rewrite) {
  std::string text;
  text.reserve(words.text.size() + words.text.size() / 4);
  const bool first_at_origin =
      words.at_origin && !words.spans.empty() && words.spans.front().begin == 0;
  bool at_origin = first_at_origin;
  for (Span& word : words.spans) {
    const std::size_t begin = text.size();
    rewrite(text, slice(words.text, word), at_origin);
    word = {begin, text.size()};
    at_origin = false;
  }
  words.text = std::move(text);
  words.at_origin = first_at_origin;
}

class ByteLevel : public PreTokenizer {
 public:
  Keeps keeps() const override { return Keeps::kByteAlphabet; }

  ByteLevel(bool add_prefix_space, bool use_regex) : add_prefix_space_(add_prefix_space) {
    if (use_regex) {
      split_ = make_split_regex(kGpt2Pattern, SplitBehavior::kIsolated, false, "ByteLevel");
    }
  }

  void apply(Words& words) const override {
    if (add_prefix_space_) {
      rewrite_words(words, [](std::string& out, std::string_view word, bool) {
        out.append(word.starts_with(' ') ? "" : " ").append(word);
      });
    }
    if (split_) {
      split_->apply(words);
    }
    rewrite_words(words, [](std::string& out, std::string_view word, bool) {
      append_byte_alphabet(out, word);
    });
  }

 private:
  bool add_prefix_space_;
  PreTokenizerPtr split_;
};

class Metaspace : public PreTokenizer {
 public:
  Keeps keeps() const override { return Keeps::kText; }

  Metaspace(const std::string& replacement, PrependScheme scheme, bool split)
      : replacement_(replacement), scheme_(scheme) {
    if (split) {
      split_ = make_split_string(replacement, SplitBehavior::kMergedWithNext, false);
    }
  }

  void apply(Words& words) const override {
    rewrite_words(words, [&](std::string& out, std::string_view word, bool at_origin) {
      if (prepends(at_origin) && !word.starts_with(' ') && !word.starts_with(replacement_)) {
        out.append(replacement_);
      }
      for (const char byte : word) {
        if (byte == ' ') {
          out.append(replacement_);
        } else {
          out.push_back(byte);
        }
      }
    });
    if (split_) {
      split_->apply(words);
    }
  }

 private:
  bool prepends(bool at_origin) const {
    return scheme_ == PrependScheme::kAlways || (scheme_ == PrependScheme::kFirst && at_origin);
  }

  std::string replacement_;
  PrependScheme scheme_;
  PreTokenizerPtr split_;
};

}  // namespace

PreTokenizerPtr make_byte_level(bool add_prefix_space, bool use_regex) {
  return std::make_unique<ByteLevel>(add_prefix_space, use_regex);
}

PreTokenizerPtr make_metaspace(const std::string& replacement, PrependScheme scheme, bool split) {
  return std::make_unique<Metaspace>(replacement, scheme, split);
}

}  // namespace nibble::text
