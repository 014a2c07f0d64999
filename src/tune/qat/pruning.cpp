#include "tune/qat/pruning.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "core/error.h"

namespace nibble::tune {
namespace {

constexpr int kMostOf = 32;

struct Worth {
  float score = 0;
  float magnitude = 0;
};

bool worth_more(const Worth& a, const Worth& b) {
  return a.score != b.score ? a.score > b.score : a.magnitude > b.magnitude;
}

// The number that a text begins with, which is taken from it; 0 where it begins with none.
int take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) {
    return 0;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

Pruning parse_pruning(std::string_view text) {
  std::string_view rest = text;
  Pruning pruning;
  pruning.keep = take_number(rest);
  const bool divided = rest.substr(0, 1) == ":";
  rest.remove_prefix(divided ? 1 : 0);
  pruning.of = take_number(rest);
  pruning.unit = rest == "-pairs" ? 2 : 1;
  const bool whole = divided && (rest.empty() || pruning.unit == 2);
  const bool in_range = pruning.keep > 0 && pruning.keep < pruning.of && pruning.of <= kMostOf;
  core::require(
      whole && in_range && pruning.keep % pruning.unit == 0 && pruning.of % pruning.unit == 0,
      core::ErrorKind::kUsage,
      "'{}' does not say which weights stay: N:M, of every M (at most {}) in a row N, or "
      "N:M-pairs with even numbers (2:4, 1:4, 4:8-pairs)",
      core::printable(text), kMostOf);
  return pruning;
}

std::string name_of(const Pruning& pruning) {
  return fmt::format("{}of{}{}{}{}", pruning.keep, pruning.of, pruning.unit == 2 ? "pairs" : "",
                     pruning.by_movement ? "-movement" : "",
                     pruning.after_rounding ? "-rounded" : "");
}

void prune(std::span<float> values, std::span<const float> scores, const Pruning& pruning) {
  const auto of = static_cast<std::size_t>(pruning.of);
  const auto unit = static_cast<std::size_t>(pruning.unit);
  const std::size_t units = of / unit;
  const std::size_t kept = static_cast<std::size_t>(pruning.keep) / unit;
  std::array<Worth, kMostOf> worth{};
  std::array<std::size_t, kMostOf> order{};
  for (std::size_t first = 0; first + of <= values.size(); first += of) {
    worth.fill({});
    for (std::size_t i = 0; i < of; ++i) {
      worth[i / unit].score += scores.empty() ? 0.0f : scores[first + i];
      worth[i / unit].magnitude += std::abs(values[first + i]);
    }
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(units);
    std::iota(order.begin(), end, std::size_t{0});
    std::stable_sort(order.begin(), end,
                     [&](std::size_t a, std::size_t b) { return worth_more(worth[a], worth[b]); });
    for (std::size_t i = kept; i < units; ++i) {
      const auto gone = values.subspan(first + order[i] * unit, unit);
      std::fill(gone.begin(), gone.end(), 0.0f);
    }
  }
}

}  // namespace nibble::tune
