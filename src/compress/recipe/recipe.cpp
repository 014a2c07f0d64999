#include "compress/recipe/recipe.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "compress/recipe/part_words.h"
#include "compress/recipe/presets.h"
#include "compress/recipe/validate.h"
#include "core/byte_size.h"
#include "core/json.h"
#include "core/nearest_name.h"
#include "io/json_file.h"

namespace nibble::compress {
namespace {

using core::ErrorKind;
using core::Json;

constexpr std::size_t kMaxRules = 64;
constexpr std::array<std::string_view, 10> kFields = {
    "name",        "scheme", "layers",  "passes", "true_sequential",
    "target_bits", "fit",    "choices", "output", "parts"};

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

// "target_bits" or "fit", and "choices".
void read_target(const Json& json, std::string_view path, Recipe& recipe) {
  const auto bits = json.find("target_bits");
  const auto fit = core::find_string(json, "fit", path);
  core::require(bits == json.end() || bits->is_number(), ErrorKind::kUsage,
                "recipe {}: 'target_bits' must be a number of bits for each weight", path);
  core::require(bits == json.end() || !fit, ErrorKind::kUsage,
                "recipe {}: only one of 'target_bits' and 'fit' can be met", path);
  if (bits != json.end()) {
    recipe.target = SizeTarget{bits->get<double>(), 0};
  } else if (fit) {
    recipe.target = SizeTarget{0, core::parse_byte_size(*fit, "fit")};
  }
  const auto choices = json.find("choices");
  if (choices == json.end()) {
    return;
  }
  core::require(choices->is_array() && !choices->empty() && choices->size() <= kMaxRules,
                ErrorKind::kUsage, "recipe {}: 'choices' must list 1 to {} schemes", path,
                kMaxRules);
  for (const Json& choice : *choices) {
    core::require(choice.is_string(), ErrorKind::kUsage,
                  "recipe {}: 'choices' must list schemes such as \"int3-asym-g128\"", path);
    recipe.choices.push_back(formats::parse_scheme(choice.get_ref<const std::string&>()));
  }
}

// {"qkv": "w8a8"}: as --quantize-parts says it.
void read_parts(const Json& json, std::string_view path, Recipe& recipe) {
  const auto parts = json.find("parts");
  if (parts == json.end()) {
    return;
  }
  core::require(parts->is_object() && !parts->empty(), ErrorKind::kUsage,
                "recipe {}: 'parts' must be an object such as {{\"qkv\": \"w8a8\"}}", path);
  std::string text;
  for (const auto& [part, type] : parts->items()) {
    text +=
        fmt::format("{}{}={}", text.empty() ? "" : ",", part, core::get_string(*parts, part, path));
  }
  recipe.parts = parse_part_schemes(text, recipe);
}

Recipe from_file(std::string_view path) {
  const Json json = io::load_json_file(std::filesystem::path(path));
  core::require(json.is_object(), ErrorKind::kUsage, "recipe {}: must be a JSON object", path);
  for (const auto& [key, value] : json.items()) {
    if (std::find(kFields.begin(), kFields.end(), key) == kFields.end()) {
      const std::vector<std::string> known(kFields.begin(), kFields.end());
      core::fail(ErrorKind::kUsage, "recipe {}: unknown field '{}'{} (fields are {})", path,
                 core::printable(key), core::suggestion(key, known), fmt::join(known, ", "));
    }
  }
  Recipe recipe;
  recipe.name =
      core::find_string(json, "name", path).value_or(std::filesystem::path(path).stem().string());
  recipe.scheme = formats::parse_scheme(core::get_string(json, "scheme", path));
  recipe.layers = read_rules(json, path);
  read_target(json, path, recipe);
  if (const auto output = core::find_string(json, "output", path)) {
    recipe.output = formats::parse_scheme(*output);
  }
  read_parts(json, path, recipe);
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
      step.options->erase("pass");
    }
    recipe.steps.push_back(std::move(step));
  }
  return recipe;
}

// "3.5" or "2GiB".
SizeTarget parse_target(std::string_view text) {
  double bits = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits);
  if (error == std::errc() && end == text.data() + text.size()) {
    return {bits, 0};
  }
  return {0, core::parse_byte_size(text, "the size behind '@'")};
}

// The pass that stored scales of activations need, where the parts brought them.
void add_input_scales(Recipe& recipe) {
  const bool wanted = std::any_of(recipe.parts->begin(), recipe.parts->end(), [](const auto& part) {
    return part.second.activation.stored_scale;
  });
  const bool there =
      std::any_of(recipe.steps.begin(), recipe.steps.end(), [](const RecipeStep& step) {
        return make_pass(step.pass, *step.options)->traits().fits_input_scales;
      });
  if (wanted && !there) {
    recipe.steps.push_back({kInputScalesPass, Json::object()});
  }
}

[[noreturn]] void refuse_name(std::string_view name) {
  const std::string nearest = nearest_preset(name);
  core::require(nearest.empty(), ErrorKind::kUsage,
                "recipe '{}' is not known; did you mean '{}'? (nibble quantize --help lists them)",
                core::printable(name), nearest);
  core::fail(ErrorKind::kUsage,
             "recipe '{}' is not known; take one of those that nibble quantize --help lists, or a "
             ".json file",
             core::printable(name));
}

}  // namespace

Recipe find_recipe(std::string_view name_or_file) {
  Recipe recipe;
  const std::size_t at = name_or_file.rfind('@');
  core::require(name_or_file != kBestRecipe, ErrorKind::kUsage,
                "recipe 'qbest' is what nibble tune-strategy stored for a model; only nibble "
                "quantize takes it");
  if (name_or_file.ends_with(".json")) {
    recipe = from_file(name_or_file);
  } else if (at != std::string_view::npos) {
    return with_target(find_recipe(name_or_file.substr(0, at)),
                       parse_target(name_or_file.substr(at + 1)));
  } else if (auto found = find_preset(name_or_file)) {
    recipe = *std::move(found);
  } else {
    refuse_name(name_or_file);
  }
  validate(recipe);
  return recipe;
}

Recipe with_target(Recipe recipe, const SizeTarget& target) {
  core::require(!recipe.target, ErrorKind::kUsage, "recipe '{}' has a target already",
                core::printable(recipe.name));
  recipe.target = target;
  recipe.name = target.bits != 0
                    ? fmt::format("{}@{}", recipe.name, target.bits)
                    : fmt::format("{}@{}", recipe.name, core::format_byte_size(target.bytes));
  validate(recipe);
  return recipe;
}

Recipe with_output(Recipe recipe, const formats::Scheme& scheme) {
  core::require(!recipe.output, ErrorKind::kUsage,
                "recipe '{}' has a scheme for the output layer already",
                core::printable(recipe.name));
  recipe.output = scheme;
  recipe.name = fmt::format("{} (output {})", recipe.name, formats::to_string(scheme));
  validate(recipe);
  return recipe;
}

Recipe with_parts(Recipe recipe, const models::PartSchemes& parts) {
  core::require(!recipe.parts, ErrorKind::kUsage, "recipe '{}' has schemes for parts already",
                core::printable(recipe.name));
  recipe.parts = parts;
  add_input_scales(recipe);
  recipe.name = fmt::format("{} ({})", recipe.name, models::to_string(parts));
  validate(recipe);
  return recipe;
}

Json to_json(const Recipe& recipe) {
  Json passes = Json::array();
  for (const RecipeStep& step : recipe.steps) {
    Json entry = *step.options;
    entry["pass"] = step.pass;
    passes.push_back(std::move(entry));
  }
  Json json = {{"name", recipe.name},
               {"scheme", formats::to_string(recipe.scheme)},
               {"passes", std::move(passes)}};
  if (recipe.true_sequential) {
    json["true_sequential"] = true;
  }
  if (recipe.target) {
    json["target"] = {{"bits", recipe.target->bits}, {"bytes", recipe.target->bytes}};
  }
  for (const formats::Scheme& choice : recipe.choices) {
    json["choices"].push_back(formats::to_string(choice));
  }
  if (recipe.parts) {
    json["parts"] = models::to_string(*recipe.parts);
  }
  if (recipe.output) {
    json["output"] = formats::to_string(*recipe.output);
  }
  for (const LayerRule& rule : recipe.layers) {
    json["layers"].push_back({{"match", rule.match}, {"scheme", formats::to_string(rule.scheme)}});
  }
  return json;
}

bool keeps_inputs(const Recipe& recipe) {
  return std::all_of(recipe.steps.begin(), recipe.steps.end(), [](const RecipeStep& step) {
    const PassTraits pass = make_pass(step.pass, *step.options)->traits();
    return pass.stage > Stage::kTransforms || pass.turns_inputs || pass.reorders_inputs;
  });
}

}  // namespace nibble::compress
