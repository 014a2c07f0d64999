#include "text/grammar/integer_range.h"

#include <algorithm>
#include <string>

namespace nibble::text {
namespace {

GrammarElement digits(char low, char high) {
  return GrammarElement::bytes(static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high));
}

// Numbers between two of as many digits.
GrammarSequence between(GrammarBuilder& builder, const std::string& low, const std::string& high) {
  if (low.empty()) {
    return {};
  }
  const auto all = [](const std::string& text, char digit) {
    return text.find_first_not_of(digit) == std::string::npos;
  };
  const std::string low_rest = low.substr(1);
  const std::string high_rest = high.substr(1);
  const auto with = [&](char first, char last, const GrammarSequence& rest) {
    GrammarSequence sequence = {digits(first, last)};
    sequence.insert(sequence.end(), rest.begin(), rest.end());
    return sequence;
  };
  if (low[0] == high[0]) {
    return with(low[0], low[0], between(builder, low_rest, high_rest));
  }
  const GrammarSequence any(low_rest.size(), digits('0', '9'));
  char first = low[0];
  char last = high[0];
  std::vector<GrammarSequence> parts;
  if (!all(low_rest, '0')) {
    parts.push_back(
        with(first, first, between(builder, low_rest, std::string(low_rest.size(), '9'))));
    ++first;
  }
  if (!all(high_rest, '9')) {
    parts.push_back(
        with(last, last, between(builder, std::string(high_rest.size(), '0'), high_rest)));
    --last;
  }
  if (first <= last) {
    parts.push_back(with(first, last, any));
  }
  return builder.any_of(parts);
}

}  // namespace

GrammarSequence integer_range(GrammarBuilder& builder, std::int64_t low, std::int64_t high) {
  std::vector<GrammarSequence> parts;
  if (low < 0) {
    GrammarSequence negative = {digits('-', '-')};
    const GrammarSequence size = integer_range(builder, std::max<std::int64_t>(1, -high), -low);
    negative.insert(negative.end(), size.begin(), size.end());
    parts.push_back(std::move(negative));
    low = 0;
  }
  for (std::int64_t first = 0, next = 10; low <= high && first <= high; first = next, next *= 10) {
    const std::int64_t from = std::max(low, first);
    const std::int64_t to = std::min(high, next - 1);
    if (from <= to) {
      parts.push_back(between(builder, std::to_string(from), std::to_string(to)));
    }
  }
  return builder.any_of(parts);
}

}  // namespace nibble::text
