#include <algorithm>
#include <optional>

#include "text/pretokenize/pre_tokenizer.h"
#include "text/regex/regex.h"

namespace nibble::text {
namespace {

void append_merged_with_next(const std::vector<Part>& parts, std::vector<Span>& spans) {
  const std::size_t first = spans.size();
  bool previous_is_delimiter = false;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->is_delimiter && !previous_is_delimiter && spans.size() > first) {
      spans.back().begin = part->span.begin;
    } else {
      spans.push_back(part->span);
    }
    previous_is_delimiter = part->is_delimiter;
  }
  std::reverse(spans.begin() + static_cast<std::ptrdiff_t>(first), spans.end());
}

// `joins(part, previous_is_delimiter)` says whether a part belongs to the word before it.
template <typename Joins>
void append_joined(const std::vector<Part>& parts, std::vector<Span>& spans, Joins joins) {
  const std::size_t first = spans.size();
  bool previous_is_delimiter = false;
  for (const Part& part : parts) {
    if (joins(part, previous_is_delimiter) && spans.size() > first) {
      spans.back().end = part.span.end;
    } else {
      spans.push_back(part.span);
    }
    previous_is_delimiter = part.is_delimiter;
  }
}

void drop_empty(std::vector<Span>& spans, std::size_t first) {
  const auto begin = spans.begin() + static_cast<std::ptrdiff_t>(first);
  spans.erase(std::remove_if(begin, spans.end(), [](const Span& span) { return span.size() == 0; }),
              spans.end());
}

// Cuts every word; `for_each_match(word, found)` calls found(span in the word) for each delimiter.
template <typename ForEachMatch>
void split_words(Words& words, SplitBehavior behavior, bool invert, ForEachMatch for_each_match) {
  std::vector<Span> spans;
  spans.reserve(words.spans.size() * 2);
  std::vector<Part> parts;
  for (const Span& word : words.spans) {
    parts.clear();
    std::size_t at = word.begin;
    for_each_match(slice(words.text, word), [&](Span match) {
      const Span found = {word.begin + match.begin, word.begin + match.end};
      if (at < found.begin) {
        parts.push_back({{at, found.begin}, invert});
      }
      parts.push_back({found, !invert});
      at = found.end;
    });
    if (at < word.end) {
      parts.push_back({{at, word.end}, invert});
    }
    append_split(parts, behavior, spans);
  }
  words.spans = std::move(spans);
}

class SplitRegex : public PreTokenizer {
 public:
  SplitRegex(std::string_view pattern, SplitBehavior behavior, bool invert, std::string_view what)
      : regex_(pattern, what), behavior_(behavior), invert_(invert) {}

  Keeps keeps() const override {
    return behavior_ == SplitBehavior::kRemoved ? Keeps::kNotAll : Keeps::kText;
  }

  void apply(Words& words) const override {
    PatternBudget own(words.text.size());
    RegexSearch search(regex_, words.budget == nullptr ? own : *words.budget);
    split_words(words, behavior_, invert_, [&](std::string_view word, auto found) {
      search.start(word);
      while (const auto match = search.next()) {
        found(*match);
      }
    });
  }

 private:
  Regex regex_;
  SplitBehavior behavior_;
  bool invert_;
};

class SplitString : public PreTokenizer {
 public:
  SplitString(std::string pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  Keeps keeps() const override {
    return behavior_ == SplitBehavior::kRemoved ? Keeps::kNotAll : Keeps::kText;
  }

  void apply(Words& words) const override {
    split_words(words, behavior_, invert_, [&](std::string_view word, auto found) {
      for (std::size_t at = word.find(pattern_); at != std::string_view::npos;
           at = word.find(pattern_, at + pattern_.size())) {
        found(Span{at, at + pattern_.size()});
      }
    });
  }

 private:
  std::string pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(std::vector<PreTokenizerPtr> steps) : steps_(std::move(steps)) {}

  Keeps keeps() const override {
    Keeps all = Keeps::kText;
    for (const PreTokenizerPtr& step : steps_) {
      const Keeps one = step->keeps();
      if (one == Keeps::kNotAll) {
        return one;
      }
      all = one == Keeps::kByteAlphabet ? one : all;
    }
    return all;
  }

  void apply(Words& words) const override {
    for (const PreTokenizerPtr& step : steps_) {
      step->apply(words);
    }
  }

 private:
  std::vector<PreTokenizerPtr> steps_;
};

}  // namespace

void append_split(const std::vector<Part>& parts, SplitBehavior behavior,
                  std::vector<Span>& spans) {
  const std::size_t first = spans.size();
  switch (behavior) {
    case SplitBehavior::kRemoved:
      for (const Part& part : parts) {
        if (!part.is_delimiter) {
          spans.push_back(part.span);
        }
      }
      break;
    case SplitBehavior::kIsolated:
      append_joined(parts, spans, [](const Part&, bool) { return false; });
      break;
    case SplitBehavior::kContiguous:
      append_joined(parts, spans,
                    [](const Part& part, bool previous) { return part.is_delimiter == previous; });
      break;
    case SplitBehavior::kMergedWithPrevious:
      append_joined(parts, spans,
                    [](const Part& part, bool previous) { return part.is_delimiter && !previous; });
      break;
    case SplitBehavior::kMergedWithNext:
      append_merged_with_next(parts, spans);
      break;
  }
  drop_empty(spans, first);
}

PreTokenizerPtr make_split_regex(std::string_view pattern, SplitBehavior behavior, bool invert,
                                 std::string_view what) {
  return std::make_unique<SplitRegex>(pattern, behavior, invert, what);
}

PreTokenizerPtr make_split_string(std::string pattern, SplitBehavior behavior, bool invert) {
  return std::make_unique<SplitString>(std::move(pattern), behavior, invert);
}

PreTokenizerPtr make_pre_tokenizer_sequence(std::vector<PreTokenizerPtr> steps) {
  return std::make_unique<Sequence>(std::move(steps));
}

}  // namespace nibble::text
