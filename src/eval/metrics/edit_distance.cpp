#include "eval/metrics/edit_distance.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace nibble::eval {
namespace {

using Texts = std::span<const std::string>;

void require_pairs(Texts predicted, Texts gold) {
  core::require(
      !gold.empty() && predicted.size() == gold.size(), core::ErrorKind::kUsage,
      "a measure needs as many predictions as true texts, and at least one; got {} and {}",
      predicted.size(), gold.size());
}

std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  std::vector<std::string_view> words;
  std::size_t begin = text.find_first_not_of(kSpace);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kSpace, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kSpace, end);
  }
  return words;
}

}  // namespace

double exact_match(Texts predicted, Texts gold) {
  require_pairs(predicted, gold);
  double same = 0;
  for (std::size_t i = 0; i < gold.size(); ++i) {
    same += predicted[i] == gold[i] ? 1 : 0;
  }
  return same / static_cast<double>(gold.size());
}

std::int64_t edit_distance(std::span<const std::string_view> a,
                           std::span<const std::string_view> b) {
  std::vector<std::int64_t> row(b.size() + 1);  // distances of a[0, i) to every b[0, j)
  std::iota(row.begin(), row.end(), std::int64_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::int64_t diagonal = row[0];
    row[0] = static_cast<std::int64_t>(i) + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::int64_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

double word_error_rate(Texts predicted, Texts gold) {
  require_pairs(predicted, gold);
  std::int64_t edits = 0;
  std::size_t words = 0;
  for (std::size_t i = 0; i < gold.size(); ++i) {
    const std::vector<std::string_view> truth = words_of(gold[i]);
    edits += edit_distance(words_of(predicted[i]), truth);
    words += truth.size();
  }
  core::require(words > 0, core::ErrorKind::kUsage,
                "the word error rate needs true texts with at least one word");
  return static_cast<double>(edits) / static_cast<double>(words);
}

}  // namespace nibble::eval
