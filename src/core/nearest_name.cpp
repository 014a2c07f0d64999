#include "core/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/error.h"

namespace nibble::core {
namespace {

constexpr std::size_t kMaxBytes = 200;  // longer names are no slips; the work grows as the square
constexpr std::size_t kShortestBeginning = 3;

std::string folded(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    c = c == '_' ? '-' : (c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  }
  return out;
}

// Edits from `a` to `b` with swaps of neighbours, each letter in one edit at most ("optimal string
// alignment"). Three rows of the table are kept.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> above_that(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    above_that.swap(above);
    above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], above_that[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

bool begins_alike(std::string_view a, std::string_view b) {
  return std::min(a.size(), b.size()) >= kShortestBeginning &&
         (a.starts_with(b) || b.starts_with(a));
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string> candidates,
                              std::size_t most) {
  if (name.empty() || name.size() > kMaxBytes) {
    return {};
  }
  const std::string wanted = folded(name);
  std::string_view nearest;
  std::string_view alike;
  std::size_t fewest = most + 1;
  for (const std::string& candidate : candidates) {
    const std::string other = folded(candidate.substr(0, kMaxBytes));
    const std::size_t count = edits(wanted, other);
    const std::size_t longer = std::max(wanted.size(), other.size());
    if (count < fewest && count <= std::max<std::size_t>(longer / 3, 1)) {
      fewest = count;
      nearest = candidate;
    }
    if (alike.empty() && begins_alike(wanted, other)) {
      alike = candidate;
    }
  }
  return nearest.empty() ? alike : nearest;
}

std::string suggestion(std::string_view name, std::span<const std::string> candidates) {
  const std::string_view nearest = nearest_name(name, candidates);
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", printable(nearest));
}

}  // namespace nibble::core
