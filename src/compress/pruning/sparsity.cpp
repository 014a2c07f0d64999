#include "compress/pruning/sparsity.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

namespace nibble::compress {

using core::ErrorKind;

namespace {

// "2:4"; nullopt for what is not built.
std::optional<Sparsity> parse_pattern(std::string_view text) {
  std::int64_t kept = 0;
  std::int64_t of = 0;
  const char* const end = text.data() + text.size();
  const auto [colon, error] = std::from_chars(text.data(), end, kept);
  if (error != std::errc() || colon == end || *colon != ':') {
    return std::nullopt;
  }
  const auto [last, second_error] = std::from_chars(colon + 1, end, of);
  const bool is_built =
      of == 2 || of == 4 || of == 8 || of == 16;  // they divide SparseGPT's blocks
  if (second_error != std::errc() || last != end || !is_built || kept < 1 || kept >= of) {
    return std::nullopt;
  }
  return Sparsity{1 - static_cast<double>(kept) / static_cast<double>(of), of - kept, of};
}

}  // namespace

Sparsity read_sparsity(PassOptions& options) {
  constexpr double kMost = 0.99;
  constexpr std::string_view kUnstructured = "unstructured";
  const bool given = options.given("sparsity");
  const double share = options.number("sparsity", Sparsity().share, 0.0, kMost);
  const std::string pattern = options.text("pattern", kUnstructured);
  if (pattern == kUnstructured) {
    return {share, 0, 0};
  }
  const std::optional<Sparsity> found = parse_pattern(pattern);
  core::require(
      found.has_value(), ErrorKind::kUsage,
      "recipe: pattern {} is not built; take \"unstructured\", or \"N:M\" with N < M and M "
      "of 2, 4, 8, 16 (\"2:4\" keeps two weights of every four)",
      core::printable(pattern));
  core::require(!given, ErrorKind::kUsage,
                "recipe: pattern {} says what is pruned; leave out the option 'sparsity'", pattern);
  return *found;
}

void require_prunable(const LayerWork& layer, const Sparsity& sparsity) {
  core::require(sparsity.of == 0 || layer.k() % sparsity.of == 0, ErrorKind::kInvalidModel,
                "{} inputs can't be pruned in groups of {}; take the pattern 'unstructured'",
                layer.k(), sparsity.of);
  for (std::size_t i = 0; i < layer.weights.size(); ++i) {
    core::require(std::isfinite(layer.weights[i]), ErrorKind::kInvalidModel,
                  "weight {} of output {} is {}; pruning needs finite weights",
                  i % static_cast<std::size_t>(layer.k()), i / static_cast<std::size_t>(layer.k()),
                  layer.weights[i]);
  }
}

void zero_pruned(LayerWork& layer) {
  for (std::size_t i = 0; i < layer.kept.size(); ++i) {
    layer.weights[i] = layer.kept[i] != 0 ? layer.weights[i] : 0.0f;
  }
}

void LowestScores::prune(std::span<const double> scores, std::int64_t count,
                         std::span<std::uint8_t> kept) {
  if (count == 0) {
    return;
  }
  sorted_.assign(scores.begin(), scores.end());
  const auto last = sorted_.begin() + (count - 1);
  std::nth_element(sorted_.begin(), last, sorted_.end());
  const double limit = *last;
  // All below the limit, and as many of those at it as are still to go.
  auto equals = count - std::count_if(scores.begin(), scores.end(),
                                      [&](double score) { return score < limit; });
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] < limit) {
      kept[i] = 0;
    } else if (scores[i] == limit && equals > 0) {
      kept[i] = 0;
      --equals;
    }
  }
}

std::int64_t share_of(double share, std::int64_t count) {
  return std::llround(share * static_cast<double>(count));
}

}  // namespace nibble::compress
