#include "compress/recipe/layer_schemes.h"

#include <algorithm>
#include <cctype>
#include <set>

#include <fmt/ranges.h>
#include <fnmatch.h>

#include "core/error.h"
#include "core/nearest_name.h"
#include "formats/gguf_types.h"

namespace nibble::compress {
namespace {

bool matches(const LayerRule& rule, const std::string& name) {
  return std::any_of(rule.match.begin(), rule.match.end(), [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
  });
}

struct Layer {
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  models::LayerPart part = models::LayerPart::kQkv;
};

// The layers that recipes compress, by name.
std::map<std::string, Layer> layers_of(const models::Network& network) {
  std::map<std::string, Layer> layers;
  for (const models::Block* block : models::all_blocks(network)) {
    for (const ops::LinearSet* set : models::linear_sets(*block)) {
      const auto part = models::part_of(*block, *set);
      for (const ops::Linear& layer : set->parts) {
        if (part) {
          layers.emplace(layer.name, Layer{layer.weight.n, layer.weight.k, *part});
        }
      }
    }
  }
  return layers;
}

// "model.layers.*.mlp.down_proj": names that differ in numbers only become one.
std::set<std::string> without_numbers(const std::map<std::string, Layer>& layers) {
  std::set<std::string> kinds;
  for (const auto& [name, layer] : layers) {
    std::string kind;
    for (std::size_t i = 0; i < name.size(); ++i) {
      const bool number = std::isdigit(static_cast<unsigned char>(name[i])) != 0;
      const bool begins = kind.empty() || kind.back() == '.' || kind.back() == '*';
      if (number && begins) {
        kind += kind.ends_with('*') ? "" : "*";
      } else {
        kind += name[i];
      }
    }
    kinds.insert(kind);
  }
  return kinds;
}

[[noreturn]] void refuse_rule(const Recipe& recipe, const LayerRule& rule,
                              const std::map<std::string, Layer>& layers) {
  std::vector<std::string> patterns;  // that would match something
  for (const auto& [name, layer] : layers) {
    patterns.push_back(name);
    patterns.push_back(fmt::format("*{}", name.substr(std::min(name.rfind('.'), name.size()))));
  }
  core::fail(
      core::ErrorKind::kUsage,
      "recipe '{}': 'layers' matches nothing with '{}' that an entry before it has not{} (the "
      "model has {})",
      core::printable(recipe.name),
      core::printable(fmt::format("{}", fmt::join(rule.match, "', '"))),
      core::suggestion(rule.match.front(), patterns),
      core::printable(fmt::format("{}", fmt::join(without_numbers(layers), ", ")), 2000));
}

void require_fits(const Recipe& recipe, const std::string& what, const formats::Scheme& scheme,
                  std::int64_t outputs, std::int64_t inputs) {
  try {
    formats::require_shape(scheme, outputs, inputs);
  } catch (const core::Error& error) {
    core::fail(core::ErrorKind::kUsage, "recipe '{}', {}: {}", core::printable(recipe.name), what,
               error.what());
  }
}

// That of a layer that no rule decides; nullopt: it stays as it is.
std::optional<formats::Scheme> scheme_of(const Recipe& recipe, models::LayerPart part) {
  if (!recipe.parts) {
    return recipe.scheme;
  }
  const auto at = recipe.parts->find(part);
  return at == recipe.parts->end() ? std::nullopt : std::optional(at->second);
}

}  // namespace

const LayerRule* rule_for(const Recipe& recipe, const std::string& layer) {
  const auto rule = std::find_if(recipe.layers.begin(), recipe.layers.end(),
                                 [&](const LayerRule& entry) { return matches(entry, layer); });
  return rule != recipe.layers.end() ? &*rule : nullptr;
}

std::map<std::string, formats::Scheme> layer_schemes(const models::Network& network,
                                                     const Recipe& recipe) {
  const std::map<std::string, Layer> layers = layers_of(network);
  std::vector<std::unique_ptr<Pass>> passes;
  for (const RecipeStep& step : recipe.steps) {
    passes.push_back(make_pass(step.pass, *step.options));
  }
  std::map<std::string, formats::Scheme> schemes;
  std::vector<bool> decides(recipe.layers.size());
  for (const auto& [name, layer] : layers) {
    const LayerRule* rule = rule_for(recipe, name);
    if (rule != nullptr) {
      decides[static_cast<std::size_t>(rule - recipe.layers.data())] = true;
    }
    const std::optional<formats::Scheme> of_part = scheme_of(recipe, layer.part);
    if (!of_part) {
      continue;
    }
    formats::Scheme scheme = rule != nullptr ? rule->scheme : *of_part;
    if (formats::has_supers(scheme) && formats::block_type_of(scheme) != nullptr &&
        layer.inputs % formats::kSuperGroup != 0) {
      scheme = formats::small_block_scheme(scheme);
    }
    for (const auto& pass : passes) {
      scheme = pass->scheme_for(scheme, layer.inputs);
    }
    require_fits(recipe, fmt::format("layer {}", core::printable(name)), scheme, layer.outputs,
                 layer.inputs);
    schemes.emplace(name, scheme);
  }
  if (const auto idle = std::find(decides.begin(), decides.end(), false); idle != decides.end()) {
    const auto rule = recipe.layers.begin() + (idle - decides.begin());
    refuse_rule(recipe, *rule, layers);
  }
  if (recipe.output) {
    const formats::PackedWeight& weight = network.output.parts.front().weight;
    require_fits(recipe, "output layer", *recipe.output, weight.n, weight.k);
    schemes.emplace(models::kOutputName, *recipe.output);
  }
  return schemes;
}

}  // namespace nibble::compress
