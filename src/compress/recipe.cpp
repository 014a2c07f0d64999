#include "compress/recipe.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "io/json_file.h"

namespace nibble::compress {
namespace {

using core::ErrorKind;
using core::Json;
using formats::FormatKind;
using formats::Scheme;

constexpr std::int64_t kDefaultGroup = 128;
constexpr std::int64_t kDefaultBookGroup = 64;
constexpr std::int64_t kMaxGroup = 1 << 20;
constexpr std::size_t kMaxRules = 64;

// Takes `prefix` off the front of `text`.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) {
    return false;
  }
  text.remove_prefix(prefix.size());
  return true;
}

std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 1 || number > kMaxGroup) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// "g64" or "row" or nothing; false when it is malformed.
bool take_group(std::string_view& text, std::int64_t fallback, Scheme& scheme) {
  scheme.group = fallback;
  if (take(text, "row")) {
    scheme.group = 0;
  } else if (take(text, "g")) {
    const auto group = take_number(text);
    if (!group) {
      return false;
    }
    scheme.group = *group;
  }
  return true;
}

// `scheme` with the words of "-a4g128-h128" behind it; nullopt when they make no scheme.
std::optional<Scheme> with_words(const Scheme& scheme, std::string_view words) {
  try {
    return formats::parse_scheme(formats::to_string(scheme) + std::string(words));
  } catch (const core::Error&) {
    return std::nullopt;
  }
}

// "w4g128-sym-a4" after the method's name.
std::optional<Scheme> integer_scheme(std::string_view text) {
  Scheme scheme;
  scheme.kind = FormatKind::kInt;
  if (!take(text, "w")) {
    return std::nullopt;
  }
  const auto bits = take_number(text);
  if (!bits || (*bits != 2 && *bits != 3 && *bits != 4 && *bits != 8) ||
      !take_group(text, kDefaultGroup, scheme)) {
    return std::nullopt;
  }
  scheme.bits = static_cast<int>(*bits);
  scheme.symmetric = take(text, "-sym");
  return with_words(scheme, text);
}

std::optional<Scheme> book_scheme(std::string_view text, formats::Book book,
                                  std::int64_t fallback_group) {
  Scheme scheme;
  scheme.kind = FormatKind::kLut4;
  scheme.bits = 4;
  scheme.book = book;
  const bool good = take_group(text, fallback_group, scheme);
  return good && text.empty() ? std::optional(scheme) : std::nullopt;
}

// Takes `suffix` off the end of `text`.
bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) {
    return false;
  }
  text.remove_suffix(suffix.size());
  return true;
}

// The scheme of a preset's name without "rtn-" or "gptq-" and without suffixes.
std::optional<Scheme> base_scheme(std::string_view text) {
  if (text == "f16" || text == "bf16" || text == "mxfp4") {
    return formats::parse_scheme(text);
  }
  if (text == "w8a8") {
    return formats::parse_scheme("int8-sym-row-a8");
  }
  if (text == "llm-int8") {
    return formats::parse_scheme("int8-sym-row-a8o");
  }
  if (take(text, "nf4")) {
    return book_scheme(text, formats::Book::kNf4, kDefaultBookGroup);
  }
  if (take(text, "fp4")) {
    return book_scheme(text, formats::Book::kFp4, kDefaultBookGroup);
  }
  if (take(text, "af4")) {
    return book_scheme(text, formats::Book::kAf4, kDefaultBookGroup);
  }
  if (take(text, "any4")) {
    return book_scheme(text, formats::Book::kPerRow, kDefaultGroup);
  }
  return std::nullopt;
}

// "wanda24" or "sparsegpt24" at the front of a preset's name, with the "-" behind it. Without
// anything behind it the weights stay in 16 bits.
std::string_view take_pruning(std::string_view& rest) {
  for (const std::string_view pass : {"wanda", "sparsegpt"}) {
    std::string_view behind = rest;
    if (take(behind, pass) && take(behind, "24") && (behind.empty() || take(behind, "-"))) {
      rest = behind.empty() && !rest.ends_with('-') ? "f16" : behind;
      return pass;
    }
  }
  return {};
}

// "atom-w4a4", "atom-w3a3", "atom-rot-w4a4": integers for weights and activations, and a tail whose
// width is fitted to each layer.
std::optional<Recipe> atom_preset(std::string_view name) {
  std::string_view rest = name;
  if (!take(rest, "atom-")) {
    return std::nullopt;
  }
  const bool rotates = take(rest, "rot-");
  if (rest != "w4a4" && rest != "w3a3") {
    return std::nullopt;
  }
  const char bits = rest[1];
  const Scheme scheme = formats::parse_scheme(
      fmt::format("int{}-sym-g128-a{}g128c0.9{}", bits, bits, rotates ? "-h128" : ""));
  Recipe recipe{std::string(name), scheme, {}, {}};
  for (const std::string pass : {"atom-reorder", "hadamard", "search", "gptq"}) {
    if (pass != "hadamard" || rotates) {
      recipe.steps.push_back({pass, Json::object()});
    }
  }
  return recipe;
}

// QuaRot in 4 bits (arXiv 2404.00456, section 5): weights by GPTQ, activations of each token in
// ranges clipped to 0.9. What enters an MLP's last layer cannot be turned beforehand, so it is
// turned while the model runs.
Recipe quarot_w4a4(std::string_view name) {
  Recipe recipe{std::string(name), formats::parse_scheme("int4-sym-g128-a4c0.9"), {}, {}};
  recipe.layers.push_back({{"*.down_proj", "*.w2", "*.mlp.c_proj", "*.fc2"},
                           formats::parse_scheme("int4-sym-g128-a4c0.9-hrow")});
  for (const char* pass : {"rotate", "hadamard", "gptq"}) {
    recipe.steps.push_back({pass, Json::object()});
  }
  return recipe;
}

std::optional<Recipe> preset(std::string_view name) {
  if (auto atom = atom_preset(name)) {
    return atom;
  }
  if (name == "quarot-w4a4") {
    return quarot_w4a4(name);
  }
  std::string_view rest = name;
  const bool rotate = take(rest, "quarot-");
  const std::string_view pruning = take_pruning(rest);
  const bool refine = take_suffix(rest, "-refine");
  const bool search = take_suffix(rest, "-search");
  bool gptq = take_suffix(rest, "-gptq");
  const bool smoothquant = take(rest, "smoothquant-");
  const bool awq = !smoothquant && take(rest, "awq-");
  std::optional<Scheme> scheme;
  if (smoothquant) {
    scheme = base_scheme(rest);
    if (scheme && scheme->activation.is_float()) {
      return std::nullopt;
    }
  } else if (!gptq && (take(rest, "rtn-") || (awq && rest.starts_with("w")))) {
    scheme = integer_scheme(rest);
  } else if (!gptq && take(rest, "gptq-")) {
    scheme = integer_scheme(rest);
    gptq = true;
  } else {
    scheme = base_scheme(rest);
  }
  if (!scheme) {
    return std::nullopt;
  }
  Recipe recipe{std::string(name), *scheme, {}, {}};
  const auto add = [&](const char* pass) { recipe.steps.push_back({pass, Json::object()}); };
  if (rotate) {
    add("rotate");
  }
  if (smoothquant) {
    add("smoothquant");
  }
  if (awq) {
    recipe.steps.push_back({"awq", {{"clip", !gptq && !search}}});
  }
  if (scheme->hadamard != 0) {
    add("hadamard");
  }
  if (!pruning.empty()) {
    recipe.steps.push_back({std::string(pruning), {{"pattern", "2:4"}}});
  }
  if (scheme->book == formats::Book::kPerRow) {
    add("any4");
  }
  if (search) {
    add("search");
  }
  add(gptq ? "gptq" : "rtn");
  if (refine) {
    add("refine");
  }
  return recipe;
}

// "*.down_proj", or a list of such patterns.
std::vector<std::string> read_patterns(const Json& entry, std::string_view path) {
  const auto match = entry.find("match");
  const bool list = match != entry.end() && match->is_array();
  std::vector<std::string> patterns;
  for (const Json& pattern :
       list ? *match : Json::array({match != entry.end() ? *match : Json()})) {
    core::require(pattern.is_string() && !pattern.get_ref<const std::string&>().empty(),
                  ErrorKind::kUsage,
                  "recipe {}: 'match' in 'layers' must be a pattern such as \"*.down_proj\", or a "
                  "list of them",
                  path);
    patterns.push_back(pattern.get<std::string>());
  }
  core::require(!patterns.empty() && patterns.size() <= kMaxRules, ErrorKind::kUsage,
                "recipe {}: 'match' in 'layers' must hold 1 to {} patterns", path, kMaxRules);
  return patterns;
}

std::vector<LayerRule> read_rules(const Json& json, std::string_view path) {
  const auto layers = json.find("layers");
  std::vector<LayerRule> rules;
  if (layers == json.end()) {
    return rules;
  }
  core::require(layers->is_array() && layers->size() <= kMaxRules, ErrorKind::kUsage,
                "recipe {}: 'layers' must be a list of at most {} entries", path, kMaxRules);
  for (const Json& entry : *layers) {
    core::require(entry.is_object(), ErrorKind::kUsage,
                  "recipe {}: an entry of 'layers' must be an object with 'match' and 'scheme'",
                  path);
    for (const auto& [key, value] : entry.items()) {
      core::require(key == "match" || key == "scheme", ErrorKind::kUsage,
                    "recipe {}: unknown field '{}' in 'layers' (match, scheme)", path,
                    core::printable(key));
    }
    rules.push_back({read_patterns(entry, path),
                     formats::parse_scheme(core::get_string(entry, "scheme", path))});
  }
  return rules;
}

Recipe from_file(std::string_view path) {
  const Json json = io::load_json_file(std::filesystem::path(path));
  core::require(json.is_object(), ErrorKind::kUsage, "recipe {}: must be a JSON object", path);
  for (const auto& [key, value] : json.items()) {
    core::require(key == "name" || key == "scheme" || key == "layers" || key == "passes",
                  ErrorKind::kUsage, "recipe {}: unknown field '{}' (name, scheme, layers, passes)",
                  path, core::printable(key));
  }
  Recipe recipe;
  recipe.name =
      core::find_string(json, "name", path).value_or(std::filesystem::path(path).stem().string());
  recipe.scheme = formats::parse_scheme(core::get_string(json, "scheme", path));
  recipe.layers = read_rules(json, path);
  const auto passes = json.find("passes");
  core::require(
      passes != json.end() && passes->is_array() && !passes->empty() && passes->size() <= 64,
      ErrorKind::kUsage, "recipe {}: 'passes' must list 1 to 64 passes", path);
  for (const Json& entry : *passes) {
    RecipeStep step;
    if (entry.is_string()) {
      step.pass = entry.get<std::string>();
    } else {
      step.pass = core::get_string(entry, "pass", path);
      step.options = entry;
      step.options.erase("pass");
    }
    recipe.steps.push_back(std::move(step));
  }
  return recipe;
}

bool is_dense(const Scheme& scheme) {
  return scheme.kind == FormatKind::kDense;
}

bool is_learned(const Scheme& scheme) {
  return scheme.book == formats::Book::kPerRow || scheme.book == formats::Book::kPerMatrix;
}

// All schemes of a recipe: the one for most layers first.
std::vector<Scheme> schemes_of(const Recipe& recipe) {
  std::vector<Scheme> schemes = {recipe.scheme};
  for (const LayerRule& rule : recipe.layers) {
    schemes.push_back(rule.scheme);
  }
  return schemes;
}

// Whether a pass can serve the schemes of its recipe. Dense layers beside others are left out.
void check(const Pass& pass, const RecipeStep& step, const Recipe& recipe) {
  const std::vector<Scheme> schemes = schemes_of(recipe);
  core::require(pass.takes_dense() || !std::all_of(schemes.begin(), schemes.end(), is_dense),
                ErrorKind::kUsage, "recipe '{}': pass '{}' needs a scheme with fewer than 16 bits",
                core::printable(recipe.name), step.pass);
  for (const Scheme& scheme : schemes) {
    if (pass.takes_dense() || !is_dense(scheme)) {
      pass.check(scheme);
    }
  }
}

template <typename Predicate>
bool any_scheme(const Recipe& recipe, Predicate holds) {
  const auto schemes = schemes_of(recipe);
  return std::any_of(schemes.begin(), schemes.end(), holds);
}

// `refused_by`: the first pass that cannot serve tails.
void validate_tails(const Recipe& recipe, bool reordered, const std::string& refused_by) {
  const bool wanted = any_scheme(recipe, [](const Scheme& scheme) { return scheme.tail != 0; });
  core::require(!wanted || reordered, ErrorKind::kUsage,
                "recipe '{}': {} has a tail, nothing says which inputs stand in it: add the pass "
                "'atom-reorder'",
                core::printable(recipe.name), formats::to_string(recipe.scheme));
  core::require(!reordered || refused_by.empty(), ErrorKind::kUsage,
                "recipe '{}': pass '{}' cannot serve weights with a tail, as 'atom-reorder' makes "
                "them",
                core::printable(recipe.name), refused_by);
}

// The scheme says that inputs are turned, the pass turns the weights: one needs the other.
void validate_hadamard(const Recipe& recipe, bool turned) {
  const bool wanted = any_scheme(recipe, [](const Scheme& scheme) { return scheme.hadamard != 0; });
  core::require(!wanted || turned, ErrorKind::kUsage,
                "recipe '{}': {} turns the inputs of layers, nothing turns their weights: add the "
                "pass 'hadamard'",
                core::printable(recipe.name), formats::to_string(recipe.scheme));
  core::require(
      !turned || wanted, ErrorKind::kUsage,
      "recipe '{}': the pass 'hadamard' turns weights by the Hadamard of a scheme; {} has "
      "none (int4-sym-g128-a4-h128 has)",
      core::printable(recipe.name), formats::to_string(recipe.scheme));
}

// Passes in the order of their stages, one of them rounding, all of them able to serve the schemes.
void validate(const Recipe& recipe) {
  const std::string name = core::printable(recipe.name);
  Stage reached = Stage::kTransformsModel;
  bool transformed = false;
  int rounding = 0;
  bool chosen = false;
  bool pruned = false;
  bool has_books = false;
  bool turned = false;
  bool reordered = false;
  std::string tails_refused;
  for (const RecipeStep& step : recipe.steps) {
    const auto pass = make_pass(step.pass, step.options);
    check(*pass, step, recipe);
    core::require(
        pass->stage() >= reached, ErrorKind::kUsage,
        "recipe '{}': pass '{}' comes too late; the order is: one that transforms the model "
        "(rotate), passes that transform (smoothquant, awq, atom-reorder, hadamard), one that "
        "prunes (wanda, "
        "sparsegpt), that choose parameters "
        "(search, any4), one that rounds (rtn, gptq), passes that refine",
        name, step.pass);
    core::require(
        !turned || pass->stage() > Stage::kTransforms, ErrorKind::kUsage,
        "recipe '{}': pass '{}' must come before 'hadamard', which leaves no channel as it "
        "was",
        name, step.pass);
    turned = turned || pass->turns_inputs();
    tails_refused = tails_refused.empty() && !pass->takes_tails() ? step.pass : tails_refused;
    core::require(!reordered || pass->stage() > Stage::kTransforms || pass->turns_inputs(),
                  ErrorKind::kUsage,
                  "recipe '{}': pass '{}' must come before 'atom-reorder', which leaves no channel "
                  "where it was",
                  name, step.pass);
    reordered = reordered || pass->reorders_inputs();
    reached = pass->stage();
    const bool transforms = reached == Stage::kTransformsModel;
    core::require(!(transforms && transformed), ErrorKind::kUsage,
                  "recipe '{}': pass '{}' would turn what is already turned", name, step.pass);
    transformed = transformed || transforms;
    const bool chooses = reached == Stage::kChoosesParameters;
    core::require(!(chooses && chosen), ErrorKind::kUsage,
                  "recipe '{}': pass '{}' would throw away what the pass before it has chosen",
                  name, step.pass);
    chosen = chosen || chooses;
    core::require(!(pass->prunes() && pruned), ErrorKind::kUsage,
                  "recipe '{}': pass '{}' would prune what is already pruned", name, step.pass);
    pruned = pruned || pass->prunes();
    rounding += reached == Stage::kRounds ? 1 : 0;
    core::require(rounding == 1 || reached < Stage::kRounds, ErrorKind::kUsage,
                  "recipe '{}': pass '{}' needs exactly one pass that rounds (rtn, gptq) {}", name,
                  step.pass, rounding == 0 ? "before it" : "in the recipe");
    has_books = has_books || pass->learns_books();
  }
  core::require(rounding == 1, ErrorKind::kUsage,
                "recipe '{}' has no pass that rounds: end it with rtn or gptq", name);
  validate_hadamard(recipe, turned);
  validate_tails(recipe, reordered, tails_refused);
  for (const Scheme& scheme : schemes_of(recipe)) {
    core::require(has_books || !is_learned(scheme), ErrorKind::kUsage,
                  "recipe '{}': {} has learned code books; begin with the pass any4", name,
                  formats::to_string(scheme));
  }
}

}  // namespace

std::vector<std::string> recipe_names() {
  return {"f16",
          "bf16",
          "w8a8",
          "llm-int8",
          "mxfp4",
          "nf4g64",
          "fp4g64",
          "af4g64",
          "any4g128",
          "any4g128-gptq",
          "any4g128-gptq-refine",
          "rtn-w4g128",
          "rtn-w4g128-sym",
          "rtn-w3g128",
          "rtn-w8g128",
          "rtn-w4g128-search",
          "gptq-w4g128",
          "gptq-w3g128",
          "gptq-w4g128-search",
          "gptq-w4g128-search-refine",
          "awq-w4g128",
          "awq-gptq-w4g128",
          "smoothquant-w8a8",
          "atom-w4a4",
          "atom-rot-w4a4",
          "atom-w3a3",
          "quarot-rtn-w4g128",
          "quarot-gptq-w4g128",
          "quarot-w4a4",
          "wanda24",
          "wanda24-rtn-w4g128",
          "sparsegpt24",
          "sparsegpt24-gptq-w4g128"};
}

Recipe find_recipe(std::string_view name_or_file) {
  Recipe recipe;
  if (name_or_file.ends_with(".json")) {
    recipe = from_file(name_or_file);
  } else if (auto found = preset(name_or_file)) {
    recipe = *std::move(found);
  } else {
    core::fail(ErrorKind::kUsage,
               "recipe '{}' is not known; built are {} (any group size, or row), or a .json file",
               core::printable(name_or_file), fmt::join(recipe_names(), ", "));
  }
  validate(recipe);
  return recipe;
}

Json to_json(const Recipe& recipe) {
  Json passes = Json::array();
  for (const RecipeStep& step : recipe.steps) {
    Json entry = step.options;
    entry["pass"] = step.pass;
    passes.push_back(std::move(entry));
  }
  Json json = {{"name", recipe.name},
               {"scheme", formats::to_string(recipe.scheme)},
               {"passes", std::move(passes)}};
  for (const LayerRule& rule : recipe.layers) {
    json["layers"].push_back({{"match", rule.match}, {"scheme", formats::to_string(rule.scheme)}});
  }
  return json;
}

}  // namespace nibble::compress
