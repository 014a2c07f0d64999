#include "compress/recipe/presets.h"

#include <algorithm>
#include <utility>

#include "compress/recipe/front_passes.h"
#include "compress/recipe/gqsa_preset.h"
#include "compress/recipe/name_words.h"
#include "compress/recipe/part_words.h"
#include "core/json.h"
#include "core/nearest_name.h"
#include "formats/gguf_types.h"

namespace nibble::compress {
namespace {

using core::Json;
using formats::Scheme;

constexpr std::int64_t kDefaultGroup = 128;
constexpr std::int64_t kDefaultBookGroup = 64;

// Names that stand for one scheme.
constexpr std::pair<std::string_view, std::string_view> kNamedSchemes[] = {
    {"f16", "f16"},
    {"bf16", "bf16"},
    {"mxfp4", "mxfp4"},
    {"nvfp4", "nvfp4"},
    {"llm-int8", "int8-sym-row-a8o"},
    {"fp8", "fp8-row"},
    {"fp8-w8a8", "fp8-row-afp8"},
    {"fp8-tensor", "fp8-tensor"},
    {"fp8-tensor-w8a8", "fp8-tensor-afp8"}};

// As help shows them.
constexpr const char* kNames[] = {"f16",
                                  "bf16",
                                  "w8a8",
                                  "w8a8s",
                                  "w4a8",
                                  "i4-qall",
                                  "i8-qall",
                                  "llm-int8",
                                  "fp8",
                                  "fp8-w8a8",
                                  "fp8-tensor",
                                  "mxfp4",
                                  "nvfp4",
                                  "q2_k",
                                  "q3_k",
                                  "iq4_xs",
                                  "iq4_nl",
                                  "iq4_nl-gptq-search",
                                  "q4_0",
                                  "q4_1",
                                  "q4_k",
                                  "q4_k-gptq-search",
                                  "q5_0",
                                  "q5_1",
                                  "q5_k",
                                  "q6_k",
                                  "q8_0",
                                  "nf4g64",
                                  "fp4g64",
                                  "af4g64",
                                  "any4g128",
                                  "any4g128-gptq",
                                  "any4g128-gptq-refine",
                                  "any3g128",
                                  "any3g128-gptq-refine",
                                  "any2g128",
                                  "rtn-w4g128",
                                  "rtn-w4g128-sym",
                                  "rtn-w3g128",
                                  "rtn-w8g128",
                                  "rtn-w8tensor",
                                  "rtn-w4g128-search",
                                  "gptq-w4g128",
                                  "gptq-w3g128",
                                  "gptq-w4g128-search",
                                  "gptq-w4g128-search-refine",
                                  "awq-w4g128",
                                  "awq-gptq-w4g128",
                                  "best4",
                                  "trellis4",
                                  "trellis3",
                                  "trellis2",
                                  "smoothquant-w8a8",
                                  "quarot-rtn-w4g128",
                                  "quarot-gptq-w4g128",
                                  "quarot-w4a4",
                                  "atom-w4a4",
                                  "atom-rot-w4a4",
                                  "atom-w3a3",
                                  "atom-fp4",
                                  "magnitude24",
                                  "magnitude-s50",
                                  "wanda24",
                                  "wanda14",
                                  "wanda48",
                                  "wanda24-rtn-w4g128",
                                  "wanda24-best4",
                                  "sparsegpt24",
                                  "sparsegpt24-gptq-w4g128",
                                  "shortgpt1",
                                  "shortgpt2-gptq-w4g128",
                                  "gqsa-w4s20",
                                  "gqsa-w4s30",
                                  "gqsa-w4s40",
                                  "gqsa-w4s50",
                                  "gqsa-w4s60",
                                  "gqsa-w4s80",
                                  "gqsa-w4s20-t16",
                                  "gqsa-w4s50-t16",
                                  "gqsa-w4a8s50",
                                  "gqsa-w8s30",
                                  "gqsa-w8s50",
                                  "gqsa-any4s20",
                                  "gqsa-any4s50",
                                  "gqsa-any3s50",
                                  "gqsa-f16s20",
                                  "gqsa-f16s30",
                                  "gqsa-f16s40",
                                  "gqsa-f16s50",
                                  "gqsa-f16s60",
                                  "sparsegpt-2of4-f16",
                                  "sparsegpt-2of4-w8a8",
                                  "sparsegpt-2of4-w4g128",
                                  "wanda-2of4-w4g128"};

// "g64", "row" or "tensor" up to the next hyphen, or nothing; false when it is malformed.
bool take_granularity(std::string_view& text, std::int64_t fallback, Scheme& scheme) {
  const std::string_view word = text.substr(0, text.find('-'));
  text.remove_prefix(word.size());
  if (word.empty()) {
    scheme.scale.group = fallback;
    return true;
  }
  const auto scale = formats::parse_granularity(word);
  if (scale) {
    scheme.scale.group = scale->group;
    scheme.scale.rows = scale->rows;
  }
  return scale.has_value();
}

// `scheme` with the words of "-a4g128-h128" behind it; nullopt when they make no scheme.
std::optional<Scheme> with_words(const Scheme& scheme, std::string_view words) {
  try {
    return formats::parse_scheme(formats::to_string(scheme) + std::string(words));
  } catch (const core::Error&) {
    return std::nullopt;
  }
}

// "w4g128-sym-a4" after the method's name, or "w8tensor": rows that share a scale are symmetric.
std::optional<Scheme> integer_scheme(std::string_view text) {
  Scheme scheme{.scale = {.type = formats::ScaleType::kF16}};
  if (!take(text, "w")) {
    return std::nullopt;
  }
  const auto bits = take_number(text);
  if (!bits || !take_granularity(text, kDefaultGroup, scheme)) {
    return std::nullopt;
  }
  scheme.code = {.type = &formats::kIntegerCodes, .bits = *bits};
  const bool symmetric = take(text, "-sym") || scheme.scale.rows != 1;
  scheme.zero = symmetric ? formats::Zero::kNone : formats::Zero::kInteger;
  return with_words(scheme, text);
}

std::optional<Scheme> book_scheme(std::string_view text, formats::Book book,
                                  std::int64_t fallback_group, int bits = 4) {
  Scheme scheme{.code = {.type = &formats::kBookCodes, .bits = bits, .book = book},
                .scale = {.type = formats::ScaleType::kF16}};
  const bool good = take_granularity(text, fallback_group, scheme) && text.empty();
  return good && formats::problem_of(scheme).empty() ? std::optional(scheme) : std::nullopt;
}

// "i4-qall" and "i8-qall" (arXiv 2301.12017) are w4a4 and w8a8 under the names of the paper.
std::optional<std::string> qall_words(std::string_view text) {
  for (const auto& [name, words] : {std::pair("i4-qall", "w4a4"), std::pair("i8-qall", "w8a8")}) {
    std::string_view rest = text;
    if (take(rest, name)) {
      return std::string(words) + std::string(rest);
    }
  }
  return std::nullopt;
}

// The scheme of a preset's name without "rtn-" or "gptq-" and without suffixes.
std::optional<Scheme> base_scheme(std::string_view text) {
  for (const auto& [name, scheme] : kNamedSchemes) {
    if (text == name) {
      return formats::parse_scheme(scheme);
    }
  }
  if (const gguf_blocks::BlockType* const type = formats::find_block_type(text)) {
    return formats::scheme_of_blocks(*type);
  }
  if (const auto words = qall_words(text)) {
    return parse_weights_and_activations(*words);
  }
  if (text.starts_with("w")) {
    return parse_weights_and_activations(text);
  }
  if (take(text, "nf4")) {
    return book_scheme(text, formats::Book::kNf4, kDefaultBookGroup);
  }
  if (take(text, "fp4")) {
    return book_scheme(text, formats::Book::kE2m1, kDefaultBookGroup);
  }
  if (take(text, "af4")) {
    return book_scheme(text, formats::Book::kAf4, kDefaultBookGroup);
  }
  if (take(text, "any4")) {
    return book_scheme(text, formats::Book::kPerRow, kDefaultGroup);
  }
  if (take(text, "any3")) {
    return book_scheme(text, formats::Book::kPerRow, kDefaultGroup, 3);
  }
  if (take(text, "any2")) {
    return book_scheme(text, formats::Book::kPerRow, kDefaultGroup, 2);
  }
  return std::nullopt;
}

// QuaRot in 4 bits (arXiv 2404.00456, section 5): weights by GPTQ in searched ranges, activations
// of each token in ranges clipped to 0.9. What enters an MLP's last layer cannot be turned
// beforehand, so it is turned while the model runs.
Recipe quarot_w4a4(std::string_view name) {
  Recipe recipe{std::string(name), formats::parse_scheme("int4-sym-g128-a4c0.9"), {}, {}};
  recipe.layers.push_back({{"*.down_proj", "*.w2", "*.mlp.c_proj", "*.fc2"},
                           formats::parse_scheme("int4-sym-g128-a4c0.9-hrow")});
  for (const char* pass : {"rotate", "hadamard", "search", "gptq"}) {
    recipe.steps.push_back({pass, Json::object()});
  }
  return recipe;
}

// Few bits for weights and activations, integers or E2M1 numbers, behind "atom-" and "atom-rot-".
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kAtomTypes = {
    {{"w4a4", "int4-sym-g128-a4g128c0.9"},
     {"w3a3", "int3-sym-g128-a3g128c0.9"},
     {"fp4", "lut4-fp4-g128-afp4g128"}}};

// "atom-w4a4", "atom-fp4", "atom-rot-w4a4": a tail's width is fitted to each layer.
std::optional<Recipe> atom_preset(std::string_view name) {
  std::string_view rest = name;
  if (!take(rest, "atom-")) {
    return std::nullopt;
  }
  const bool rotates = take(rest, "rot-");
  const auto found = std::find_if(kAtomTypes.begin(), kAtomTypes.end(),
                                  [&](const auto& type) { return type.first == rest; });
  if (found == kAtomTypes.end()) {
    return std::nullopt;
  }
  const Scheme scheme =
      formats::parse_scheme(std::string(found->second) + (rotates ? "-h128" : ""));
  Recipe recipe{std::string(name), scheme, {}, {}};
  recipe.steps.push_back({"atom-reorder", Json::object()});
  if (rotates) {
    recipe.steps.push_back({"hadamard", Json::object()});
  }
  recipe.steps.push_back({"search", Json::object()});
  recipe.steps.push_back({"gptq", Json::object()});
  return recipe;
}

// "best4": the best that is known here at 4.25 bits (docs/methods/best4.md).
std::optional<Recipe> best4(std::string_view name) {
  constexpr std::int64_t kGroup = 32;
  std::string_view rest = name;
  Scheme scheme = formats::parse_scheme("lut4-matrix-g32-s7");
  if (!take(rest, "best4") || !take_granularity(rest, kGroup, scheme) || !rest.empty() ||
      !formats::problem_of(scheme).empty()) {
    return std::nullopt;
  }
  Recipe recipe{std::string(name), scheme, {}, {}, true};
  recipe.steps = {{"awq", Json{{"clip", false}}},
                  {"asymmetric", Json::object()},
                  {"any4", Json::object()},
                  {"gptq", Json::object()},
                  {"refine", Json{{"loss", "model"}, {"sweeps", 4}}}};
  return recipe;
}

// "sparsegpt-2of4-w4g128", "wanda-2of4-w8a8", "sparsegpt-2of4-f16": two of each four weights are
// pruned and not stored, and integers are rounded by GPTQ, or to nearest ("wanda-2of4-rtn-w4g128").
std::optional<Recipe> two_of_four_preset(std::string_view name) {
  std::string_view rest = name;
  const std::string_view pass = name.substr(0, name.find('-'));
  if ((pass != "sparsegpt" && pass != "wanda") || !take(rest, pass) || !take(rest, "-2of4-")) {
    return std::nullopt;
  }
  const bool refines = take_suffix(rest, "-refine");
  const bool to_nearest = take(rest, "rtn-");
  const bool is_dense = rest == "f16" || rest == "bf16";
  const auto integers = integer_scheme(rest);
  std::optional<Scheme> scheme = integers ? integers : base_scheme(rest);  // "w8a8", "f16"
  if (!scheme || (is_dense && (refines || to_nearest))) {
    return std::nullopt;
  }
  scheme->sparsity = formats::Sparsity::kTwoOfFour;
  if (!formats::problem_of(*scheme).empty()) {
    return std::nullopt;
  }
  Recipe recipe{std::string(name), *scheme, {}, {}};
  recipe.steps = {{std::string(pass), Json{{"pattern", "2:4"}}},
                  {to_nearest || is_dense ? "rtn" : "gptq", Json::object()}};
  if (refines) {
    recipe.steps.push_back({"refine", Json::object()});
  }
  return recipe;
}

// "trellis4", "trellis3", "trellis2" (docs/methods/trellis.md).
std::optional<Recipe> trellis_preset(std::string_view name) {
  if (name != "trellis4" && name != "trellis3" && name != "trellis2") {
    return std::nullopt;
  }
  Recipe recipe{std::string(name), formats::parse_scheme(std::string(name) + "-row-hrow"), {}, {}};
  recipe.steps = {{"hadamard", Json::object()}, {"trellis", Json::object()}};
  return recipe;
}

// Those that are turned by nothing else.
std::optional<Recipe> recipe_of_one_name(std::string_view name) {
  std::optional<Recipe> recipe;
  for (const auto make : {best4, gqsa_preset, trellis_preset}) {
    recipe = recipe ? recipe : make(name);
  }
  return recipe;
}

// What the words around a scheme in a preset's name ask for.
struct PresetWords {
  bool refine = false;
  bool search = false;
  bool gptq = false;
  bool smoothquant = false;
  bool awq = false;
};

// Takes them off the name but for "rtn-" and "gptq-" before integers.
PresetWords take_words(std::string_view& rest) {
  PresetWords words;
  words.refine = take_suffix(rest, "-refine");
  words.search = take_suffix(rest, "-search");
  words.gptq = take_suffix(rest, "-gptq");
  words.smoothquant = take(rest, "smoothquant-");
  words.awq = !words.smoothquant && take(rest, "awq-");
  return words;
}

// What is left of the name.
std::optional<Scheme> take_scheme(std::string_view rest, PresetWords& words) {
  if (words.smoothquant) {
    const auto scheme = base_scheme(rest);
    return scheme && scheme->activation.is_float() ? std::nullopt : scheme;
  }
  if (!words.gptq && (take(rest, "rtn-") || (words.awq && rest.starts_with("w")))) {
    return integer_scheme(rest);
  }
  if (!words.gptq && take(rest, "gptq-")) {
    words.gptq = true;
    return integer_scheme(rest);
  }
  return base_scheme(rest);
}

std::optional<Recipe> block_preset(std::string_view name) {
  std::string_view rest = name;
  PresetWords words = take_words(rest);
  const std::optional<Scheme> scheme = take_scheme(rest, words);
  if (!scheme) {
    return std::nullopt;
  }
  Recipe recipe{std::string(name), *scheme, {}, {}};
  const auto add_if = [&](bool wanted, std::string_view pass,
                          const Json& options = Json::object()) {
    if (wanted) {
      recipe.steps.push_back({std::string(pass), options});
    }
  };
  add_if(words.smoothquant, "smoothquant");
  add_if(words.awq, "awq", {{"clip", !words.gptq && !words.search}});
  add_if(scheme->inputs.hadamard != 0, "hadamard");
  add_if(scheme->code.book == formats::Book::kPerRow, "any4");
  add_if(words.search, "search");
  add_if(true, words.gptq ? "gptq" : "rtn");
  add_if(words.refine, "refine");
  add_if(scheme->activation.stored_scale, kInputScalesPass);
  return recipe;
}

// "nf4g64" is "nf4" in groups of 64.
std::string_view group_of(std::string_view word) {
  if (word.ends_with("row")) {
    return word.substr(word.size() - 3);
  }
  const std::size_t digits = word.find_last_not_of("0123456789");
  const bool group = digits != std::string_view::npos && digits > 0 && word[digits] == 'g' &&
                     digits + 1 < word.size();
  return group ? word.substr(digits) : std::string_view();
}

// The words between the hyphens of the presets' names, without groups.
std::vector<std::string> preset_words() {
  std::vector<std::string> words;
  for (const std::string& name : recipe_names()) {
    for (std::size_t begin = 0; begin <= name.size();) {
      const std::size_t end = std::min(name.find('-', begin), name.size());
      const std::string_view word = std::string_view(name).substr(begin, end - begin);
      words.emplace_back(word.substr(0, word.size() - group_of(word).size()));
      begin = end + 1;
    }
  }
  return words;
}

}  // namespace

std::optional<Recipe> find_preset(std::string_view name) {
  if (name == "quarot-w4a4") {
    return quarot_w4a4(name);
  }
  if (auto recipe = two_of_four_preset(name)) {
    return recipe;
  }
  std::string_view rest = name;
  std::vector<RecipeStep> front = take_front_passes(rest);
  const bool rotates = std::any_of(front.begin(), front.end(),
                                   [](const RecipeStep& step) { return step.pass == "rotate"; });
  std::optional<Recipe> recipe = rotates ? std::nullopt : recipe_of_one_name(rest);
  for (const auto make : {atom_preset, block_preset}) {
    recipe = recipe ? recipe : make(rest);
  }
  if (recipe) {
    recipe->name = name;
    add_front_passes(std::move(front), recipe->steps);
  }
  return recipe;
}

std::string nearest_preset(std::string_view name) {
  const std::vector<std::string> words = preset_words();
  std::string built;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find_first_of("-_", begin), name.size());
    const std::string_view word = name.substr(begin, end - begin);
    const std::string_view group = group_of(word);
    built += built.empty() ? "" : "-";
    built += core::nearest_name(word.substr(0, word.size() - group.size()), words);
    built += group;
    begin = end + 1;
  }
  if (find_preset(built)) {
    return built;
  }
  const std::vector<std::string> names = recipe_names();
  return std::string(core::nearest_name(name, names, 1));  // a hyphen that is missing
}

std::vector<std::string> recipe_names() {
  return {std::begin(kNames), std::end(kNames)};
}

}  // namespace nibble::compress
