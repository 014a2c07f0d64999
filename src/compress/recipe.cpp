#include "compress/recipe.h"

#include <algorithm>
#include <optional>

#include "compress/recipe_presets.h"
#include "io/json_file.h"

namespace nibble::compress {
namespace {

using core::ErrorKind;
using core::Json;
using formats::FormatKind;
using formats::Scheme;

constexpr std::size_t kMaxRules = 64;

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
    core::require(key == "name" || key == "scheme" || key == "layers" || key == "passes" ||
                      key == "true_sequential",
                  ErrorKind::kUsage,
                  "recipe {}: unknown field '{}' (name, scheme, layers, passes, true_sequential)",
                  path, core::printable(key));
  }
  Recipe recipe;
  recipe.name =
      core::find_string(json, "name", path).value_or(std::filesystem::path(path).stem().string());
  recipe.scheme = formats::parse_scheme(core::get_string(json, "scheme", path));
  recipe.layers = read_rules(json, path);
  if (const auto sequential = json.find("true_sequential"); sequential != json.end()) {
    core::require(sequential->is_boolean(), ErrorKind::kUsage,
                  "recipe {}: 'true_sequential' must be true or false", path);
    recipe.true_sequential = sequential->get<bool>();
  }
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

// `refused_by`: the first pass that cannot serve tails.
void validate_tails(const Recipe& recipe, bool reordered, const std::string& refused_by) {
  bool wanted = false;
  for (const Scheme& scheme : schemes_of(recipe)) {
    wanted = wanted || scheme.tail != 0;
  }
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
  bool wanted = false;
  for (const Scheme& scheme : schemes_of(recipe)) {
    wanted = wanted || scheme.hadamard != 0;
  }
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
        "corrects "
        "(asymmetric), one that prunes (wanda, sparsegpt), that choose parameters "
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
    core::require(!(turned || reordered) ||
                      (!recipe.true_sequential && pass->needs() < StatisticsKind::kCross),
                  ErrorKind::kUsage,
                  "recipe '{}': inputs that 'hadamard' or 'atom-reorder' changes are measured once "
                  "for the whole block; neither true_sequential nor 'asymmetric' is built for them",
                  name);
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

Recipe find_recipe(std::string_view name_or_file) {
  Recipe recipe;
  if (name_or_file.ends_with(".json")) {
    recipe = from_file(name_or_file);
  } else if (auto found = find_preset(name_or_file)) {
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
  if (recipe.true_sequential) {
    json["true_sequential"] = true;
  }
  for (const LayerRule& rule : recipe.layers) {
    json["layers"].push_back({{"match", rule.match}, {"scheme", formats::to_string(rule.scheme)}});
  }
  return json;
}

bool keeps_inputs(const Recipe& recipe) {
  return std::all_of(recipe.steps.begin(), recipe.steps.end(), [](const RecipeStep& step) {
    const auto pass = make_pass(step.pass, step.options);
    return pass->stage() > Stage::kTransforms || pass->turns_inputs() || pass->reorders_inputs();
  });
}

}  // namespace nibble::compress
