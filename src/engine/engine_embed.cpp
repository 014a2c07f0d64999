#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/error.h"
#include "engine/engine.h"

namespace nibble::engine {

using core::ErrorKind;
using std::ssize;

std::vector<float> Engine::embed(std::span<const std::int32_t> tokens) {
  check_prompt(tokens);
  std::vector<PageId> pages;
  const auto give_back = [&] {
    for (const PageId page : pages) {
      pages_.release(page);
    }
  };
  std::vector<double> sum;
  try {
    pages.reserve(static_cast<std::size_t>(ops::pages_for(ssize(tokens))));
    while (ssize(pages) < ops::pages_for(ssize(tokens))) {
      const std::optional<PageId> page = pages_.take();
      core::require(page.has_value(), ErrorKind::kOutOfMemory,
                    "the KV cache has too few free pages for {} tokens; try again later",
                    tokens.size());
      pages.push_back(*page);
    }
    for (std::int64_t at = 0; at < ssize(tokens); at += options_.prefill_rows) {
      const std::int64_t rows = std::min(options_.prefill_rows, ssize(tokens) - at);
      const std::vector<float> part = runner_->hidden_sum(
          {pages, at,
           tokens.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(rows))});
      sum.resize(part.size());
      for (std::size_t i = 0; i < part.size(); ++i) {
        sum[i] += part[i];
      }
    }
  } catch (...) {
    give_back();
    throw;
  }
  give_back();
  double square = 0;
  for (const double value : sum) {
    square += value * value;
  }
  core::require(std::isfinite(square), ErrorKind::kFailed,
                "the model computed NaN; its weights may be damaged");
  std::vector<float> result;
  for (const double value : sum) {
    result.push_back(static_cast<float>(square > 0 ? value / std::sqrt(square) : 0.0));
  }
  return result;
}

}  // namespace nibble::engine
