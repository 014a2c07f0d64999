#include "eval/metrics/rouge.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>

#include "characters/case_mapping.h"
#include "characters/utf8.h"
#include "core/error.h"
#include "eval/metrics/porter_stemmer.h"

namespace nibble::eval {
namespace {

using Words = std::vector<std::string>;

constexpr std::size_t kShortestStemmed = 4;

RougeScore score_of(std::size_t common, std::size_t target, std::size_t prediction) {
  RougeScore score;
  score.precision =
      static_cast<double>(common) / static_cast<double>(std::max<std::size_t>(prediction, 1));
  score.recall =
      static_cast<double>(common) / static_cast<double>(std::max<std::size_t>(target, 1));
  const double sum = score.precision + score.recall;
  score.f1 = sum > 0 ? 2 * score.precision * score.recall / sum : 0;
  return score;
}

std::map<Words, std::size_t> count_ngrams(const Words& words, std::size_t n) {
  std::map<Words, std::size_t> counts;
  for (std::size_t i = 0; i + n <= words.size(); ++i) {
    const auto first = words.begin() + static_cast<std::ptrdiff_t>(i);
    ++counts[Words(first, first + static_cast<std::ptrdiff_t>(n))];
  }
  return counts;
}

std::size_t ngrams_of(const Words& words, std::size_t n) {
  return words.size() < n ? 0 : words.size() - n + 1;
}

// Lengths of the longest common subsequences of all beginnings of two texts.
class LcsTable {
 public:
  LcsTable(const Words& a, const Words& b)
      : a_(a), b_(b), columns_(b.size() + 1), lengths_((a.size() + 1) * columns_) {
    for (std::size_t i = 1; i <= a.size(); ++i) {
      for (std::size_t j = 1; j <= b.size(); ++j) {
        lengths_[i * columns_ + j] =
            a[i - 1] == b[j - 1] ? at(i - 1, j - 1) + 1 : std::max(at(i - 1, j), at(i, j - 1));
      }
    }
  }

  std::size_t length() const { return lengths_.back(); }

  // Marks the words of `a` that belong to one longest common subsequence. Among several it is the
  // one that rouge-score finds: from the end, a step in `b` only where that keeps more.
  void mark(std::vector<bool>& marks) const {
    std::size_t i = a_.size();
    std::size_t j = b_.size();
    while (i > 0 && j > 0) {
      if (a_[i - 1] == b_[j - 1]) {
        marks[--i] = true;
        --j;
      } else if (at(i, j - 1) > at(i - 1, j)) {
        --j;
      } else {
        --i;
      }
    }
  }

 private:
  std::uint32_t at(std::size_t i, std::size_t j) const { return lengths_[i * columns_ + j]; }

  const Words& a_;
  const Words& b_;
  std::size_t columns_;
  std::vector<std::uint32_t> lengths_;
};

// Words of each line.
std::vector<Words> sentences_of(std::string_view text, RougeOptions options) {
  std::vector<Words> sentences;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    sentences.push_back(rouge_words(text.substr(begin, end - begin), options));
    begin = end + 1;
  }
  return sentences;
}

std::map<std::string, std::size_t> count_words(const std::vector<Words>& sentences) {
  std::map<std::string, std::size_t> counts;
  for (const Words& sentence : sentences) {
    for (const std::string& word : sentence) {
      ++counts[word];
    }
  }
  return counts;
}

std::size_t total_words(const std::vector<Words>& sentences) {
  std::size_t total = 0;
  for (const Words& sentence : sentences) {
    total += sentence.size();
  }
  return total;
}

}  // namespace

Words rouge_words(std::string_view text, RougeOptions options) {
  const std::string lower = characters::to_lower(characters::to_valid_utf8(text));
  Words words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) {
      words.push_back(options.stem && word.size() >= kShortestStemmed ? porter_stem(word) : word);
      word.clear();
    }
  };
  for (const char c : lower) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      word += c;
    } else {
      end_word();
    }
  }
  end_word();
  return words;
}

RougeScore rouge_n(std::string_view target, std::string_view prediction, int n,
                   RougeOptions options) {
  core::require(n >= 1, core::ErrorKind::kUsage, "ROUGE-{} is not defined; use 1 or more", n);
  const auto length = static_cast<std::size_t>(n);
  const Words target_words = rouge_words(target, options);
  const Words predicted_words = rouge_words(prediction, options);
  const auto predicted = count_ngrams(predicted_words, length);
  std::size_t common = 0;
  for (const auto& [ngram, count] : count_ngrams(target_words, length)) {
    const auto at = predicted.find(ngram);
    common += at == predicted.end() ? 0 : std::min(count, at->second);
  }
  return score_of(common, ngrams_of(target_words, length), ngrams_of(predicted_words, length));
}

RougeScore rouge_l(std::string_view target, std::string_view prediction, RougeOptions options) {
  const Words target_words = rouge_words(target, options);
  const Words predicted_words = rouge_words(prediction, options);
  return score_of(LcsTable(target_words, predicted_words).length(), target_words.size(),
                  predicted_words.size());
}

RougeScore rouge_lsum(std::string_view target, std::string_view prediction, RougeOptions options) {
  const std::vector<Words> target_sentences = sentences_of(target, options);
  const std::vector<Words> predicted_sentences = sentences_of(prediction, options);
  auto target_left = count_words(target_sentences);
  auto predicted_left = count_words(predicted_sentences);
  std::size_t common = 0;
  for (const Words& sentence : target_sentences) {
    std::vector<bool> marks(sentence.size());
    for (const Words& predicted : predicted_sentences) {
      LcsTable(sentence, predicted).mark(marks);
    }
    // No word counts more often than it stands in either text.
    for (std::size_t i = 0; i < sentence.size(); ++i) {
      const auto at = predicted_left.find(sentence[i]);
      if (marks[i] && at != predicted_left.end() && at->second > 0 &&
          target_left[sentence[i]] > 0) {
        ++common;
        --at->second;
        --target_left[sentence[i]];
      }
    }
  }
  return score_of(common, total_words(target_sentences), total_words(predicted_sentences));
}

}  // namespace nibble::eval
