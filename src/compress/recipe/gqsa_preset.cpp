#include "compress/recipe/gqsa_preset.h"

#include "compress/recipe/name_words.h"
#include "core/json.h"

namespace nibble::compress {
namespace {

using core::Json;
using formats::Scheme;

constexpr int kDefaultGroup = 16;
constexpr int kLeastShare = 1;  // percent
constexpr int kMostShare = 95;
constexpr int kLeastBookBits = 2;
constexpr int kMostBookBits = 4;

// The scheme of "w4a8g32s40", "any4s40" or "f16s40", of which "s40" is left; without pattern.
std::optional<Scheme> take_sparse_scheme(std::string_view& rest) {
  Scheme scheme;
  if (take(rest, "w")) {
    scheme.code = {.type = &formats::kIntegerCodes, .bits = take_number(rest).value_or(0)};
    scheme.scale.type = formats::ScaleType::kF16;
    scheme.zero = formats::Zero::kInteger;
  } else if (take(rest, "any")) {
    const int bits = take_number(rest).value_or(0);
    if (bits < kLeastBookBits || bits > kMostBookBits) {
      return std::nullopt;
    }
    scheme.code = {.type = &formats::kBookCodes, .bits = bits, .book = formats::Book::kPerRow};
    scheme.scale.type = formats::ScaleType::kF16;
  } else if (take(rest, "f16")) {
    scheme.code.dense = core::DType::kF16;
  } else {
    return std::nullopt;
  }
  scheme.activation.bits = take(rest, "a8") ? 8 : 0;
  scheme.scale.group = take(rest, "g") ? take_number(rest).value_or(0) : kDefaultGroup;
  return scheme;
}

}  // namespace

std::optional<Recipe> gqsa_preset(std::string_view name) {
  std::string_view rest = name;
  if (!take(rest, "gqsa-")) {
    return std::nullopt;
  }
  const bool refines = take_suffix(rest, "-refine");
  const bool of_matrix = take_suffix(rest, "-matrix");
  const bool of_tiles = take_suffix(rest, "-t16");
  const bool short_scales = take_suffix(rest, "-s7");
  std::optional<Scheme> scheme = take_sparse_scheme(rest);
  const int share = take(rest, "s") ? take_number(rest).value_or(0) : 0;
  if (!scheme || !rest.empty() || share < kLeastShare || share > kMostShare) {
    return std::nullopt;
  }
  scheme->sparsity = of_tiles ? formats::Sparsity::kTileGroups : formats::Sparsity::kGroups;
  if (short_scales) {
    scheme->scale.type = formats::ScaleType::kUnits;
  }
  const bool has_codes = formats::has_codes(*scheme);
  if (formats::is_integer(*scheme) && !formats::problem_of(*scheme).empty()) {
    return std::nullopt;
  }
  Recipe recipe{std::string(name), *scheme, {}, {}};
  recipe.steps = {{"gqsa", Json{{"sparsity", share / 100.0}}}};
  if (of_matrix) {
    (*recipe.steps.front().options)["balance"] = "matrix";
  }
  if (formats::has_learned_book(*scheme)) {
    recipe.steps.push_back({"any4", Json::object()});
  }
  recipe.steps.push_back({has_codes ? "gptq" : "rtn", Json::object()});
  if (refines) {
    recipe.steps.push_back({"refine", Json::object()});
  }
  return recipe;
}

}  // namespace nibble::compress
