#include "compress/recipe/front_passes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "compress/recipe/name_words.h"
#include "core/json.h"

namespace nibble::compress {
namespace {

using core::Json;

// Takes what stands before the next "-", and the "-". Behind the end of a name stand 16 bits.
std::string_view take_front(std::string_view& rest) {
  const std::size_t hyphen = rest.find('-');
  const std::string_view front = rest.substr(0, hyphen);
  rest = hyphen == std::string_view::npos ? "f16" : rest.substr(hyphen + 1);
  return front;
}

// "24" is the pattern 2:4; the pass refuses those that are not built.
std::optional<Json> pattern_option(std::string_view digits) {
  std::string_view rest = digits;
  const bool good = digits.size() > 1 && take_number(rest) && rest.empty();
  return good ? std::optional(
                    Json{{"pattern", fmt::format("{}:{}", digits.substr(0, 1), digits.substr(1))}})
              : std::nullopt;
}

// "s50" is half of the weights, wherever they stand.
std::optional<Json> share_option(std::string_view word) {
  constexpr int kMost = 99;
  const bool begins = take(word, "s");
  const std::optional<int> percent = take_number(word);
  const bool good = begins && percent && word.empty() && *percent > 0 && *percent <= kMost;
  return good ? std::optional(Json{{"sparsity", *percent / 100.0}}) : std::nullopt;
}

// "wanda24-", "magnitude14-", "sparsegpt-s50-" at the front of a preset's name, or one of them
// alone.
std::optional<RecipeStep> take_pruning(std::string_view& rest) {
  for (const std::string_view pass : {"magnitude", "wanda", "sparsegpt"}) {
    std::string_view behind = rest;
    std::string_view digits = take_front(behind);
    if (!take(digits, pass)) {
      continue;
    }
    std::optional<Json> options =
        digits.empty() ? share_option(take_front(behind)) : pattern_option(digits);
    if (options) {
      rest = behind;
      return RecipeStep{std::string(pass), *std::move(options)};
    }
  }
  return std::nullopt;
}

// "shortgpt2-" at the front of a preset's name, or alone.
std::optional<RecipeStep> take_removal(std::string_view& rest) {
  std::string_view behind = rest;
  std::string_view word = take_front(behind);
  const bool begins = take(word, "shortgpt");
  const std::optional<int> blocks = take_number(word);
  if (!begins || !blocks || !word.empty()) {
    return std::nullopt;
  }
  rest = behind;
  return RecipeStep{"shortgpt", Json{{"blocks", *blocks}}};
}

}  // namespace

std::vector<RecipeStep> take_front_passes(std::string_view& name) {
  std::vector<RecipeStep> passes;
  if (std::optional<RecipeStep> removal = take_removal(name)) {
    passes.push_back(*std::move(removal));
  }
  if (take(name, "quarot-")) {
    passes.push_back({"rotate", Json::object()});
  }
  if (std::optional<RecipeStep> pruning = take_pruning(name)) {
    passes.push_back(*std::move(pruning));
  }
  return passes;
}

void add_front_passes(std::vector<RecipeStep> passes, std::vector<RecipeStep>& steps) {
  const auto stage_of = [](const RecipeStep& step) {
    return make_pass(step.pass, *step.options)->traits().stage;
  };
  for (RecipeStep& pass : passes) {
    const Stage stage = stage_of(pass);
    const auto place = std::find_if(steps.begin(), steps.end(), [&](const RecipeStep& other) {
      return stage_of(other) > stage;
    });
    steps.insert(place, std::move(pass));
  }
}

}  // namespace nibble::compress
