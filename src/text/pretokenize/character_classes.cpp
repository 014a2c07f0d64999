#include "characters/properties.h"
#include "characters/utf8.h"
#include "text/pretokenize/pre_tokenizer.h"

namespace nibble::text {
namespace {

using CharacterTest = bool (*)(char32_t);

// Each character that passes the test is a delimiter of its own.
void split_at_characters(Words& words, CharacterTest is_delimiter, SplitBehavior behavior) {
  std::vector<Span> spans;
  spans.reserve(words.spans.size() * 2);
  std::vector<Part> parts;
  for (const Span& word : words.spans) {
    parts.clear();
    std::size_t begin = word.begin;
    for (std::size_t at = word.begin; at < word.end;) {
      const characters::CodePoint c = characters::decode_utf8(words.text, at);
      const std::size_t end = at + c.bytes;
      if (is_delimiter(c.value)) {
        if (begin < at) {
          parts.push_back({{begin, at}, false});
        }
        parts.push_back({{at, end}, true});
        begin = end;
      }
      at = end;
    }
    if (begin < word.end) {
      parts.push_back({{begin, word.end}, false});
    }
    append_split(parts, behavior, spans);
  }
  words.spans = std::move(spans);
}

class CharacterSplit : public PreTokenizer {
 public:
  CharacterSplit(CharacterTest is_delimiter, SplitBehavior behavior)
      : is_delimiter_(is_delimiter), behavior_(behavior) {}

  void apply(Words& words) const override { split_at_characters(words, is_delimiter_, behavior_); }

  Keeps keeps() const override {
    return behavior_ == SplitBehavior::kRemoved ? Keeps::kNotAll : Keeps::kText;
  }

 private:
  CharacterTest is_delimiter_;
  SplitBehavior behavior_;
};

class BertPreTokenizer : public PreTokenizer {
 public:
  void apply(Words& words) const override {
    split_at_characters(words, characters::is_white_space, SplitBehavior::kRemoved);
    split_at_characters(words, characters::is_punctuation, SplitBehavior::kIsolated);
  }
};

enum class WordClass { kSpace, kWord, kOther };

WordClass classify(char32_t c) {
  return characters::is_word_character(c)
             ? WordClass::kWord
             : (characters::is_white_space(c) ? WordClass::kSpace : WordClass::kOther);
}

// What the pattern \w+|[^\w\s]+ matches.
class Whitespace : public PreTokenizer {
 public:
  void apply(Words& words) const override {
    std::vector<Span> spans;
    for (const Span& word : words.spans) {
      WordClass previous = WordClass::kSpace;
      for (std::size_t at = word.begin; at < word.end;) {
        const characters::CodePoint c = characters::decode_utf8(words.text, at);
        const std::size_t end = at + c.bytes;
        const WordClass current = classify(c.value);
        if (current != WordClass::kSpace && current == previous) {
          spans.back().end = end;
        } else if (current != WordClass::kSpace) {
          spans.push_back({at, end});
        }
        previous = current;
        at = end;
      }
    }
    words.spans = std::move(spans);
  }
};

}  // namespace

PreTokenizerPtr make_bert_pre_tokenizer() {
  return std::make_unique<BertPreTokenizer>();
}

PreTokenizerPtr make_whitespace() {
  return std::make_unique<Whitespace>();
}

PreTokenizerPtr make_whitespace_split() {
  return std::make_unique<CharacterSplit>(characters::is_white_space, SplitBehavior::kRemoved);
}

PreTokenizerPtr make_digits(bool individual) {
  return std::make_unique<CharacterSplit>(
      characters::is_numeric, individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
}

PreTokenizerPtr make_punctuation(SplitBehavior behavior) {
  return std::make_unique<CharacterSplit>(characters::is_punctuation, behavior);
}

}  // namespace nibble::text
