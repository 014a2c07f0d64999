#include "compress/allocation/allocate_formats.h"

#include <algorithm>
#include <set>

#include "compress/allocation/knapsack.h"
#include "compress/recipe/format_choices.h"
#include "compress/recipe/layer_schemes.h"
#include "compress/recipe/pass.h"
#include "core/byte_size.h"
#include "core/error.h"
#include "formats/gguf_types.h"
#include "formats/stored_parts.h"
#include "ops/cpu/dense/blas.h"

namespace nibble::compress {
namespace {

using formats::Scheme;

// Layers that the recipe compresses alike, one but for experts of GGUF files, and what they can
// become.
struct Candidate {
  std::vector<const ops::Linear*> layers;
  std::vector<Scheme> schemes;
  std::vector<Offer> offers;
};

// What a layer takes where the target counts.
std::int64_t bytes_in(const SizeTarget& target, const Scheme& scheme, std::int64_t n,
                      std::int64_t k) {
  const gguf_blocks::BlockType* const blocks = formats::block_type_of(scheme);
  return target.in_gguf && blocks != nullptr ? formats::block_bytes(*blocks, n, k)
                                             : formats::stored_bytes(scheme, n, k);
}

bool fits_shape(const SizeTarget& target, const Scheme& scheme,
                const formats::PackedWeight& weight) {
  const gguf_blocks::BlockType* const blocks = formats::block_type_of(scheme);
  if (target.in_gguf && blocks != nullptr && weight.k % blocks->block_elements != 0) {
    return false;
  }
  try {
    formats::require_shape(scheme, weight.n, weight.k);
    return true;
  } catch (const core::Error&) {
    return false;
  }
}

// Part `part` of the same set of each expert.
std::vector<const ops::Linear*> of_experts(const models::Block& block,
                                           ops::LinearSet models::Mlp::*set, std::size_t part) {
  std::vector<const ops::Linear*> layers;
  for (const models::Mlp& expert : block.experts) {
    layers.push_back(&(expert.*set).parts[part]);
  }
  return layers;
}

// The layers of a block, those together that must have one scheme: a GGUF file has the matrices of
// all experts in one tensor.
std::vector<std::vector<const ops::Linear*>> layers_together(const models::Block& block,
                                                             bool in_gguf) {
  std::vector<std::vector<const ops::Linear*>> result;
  std::set<const ops::Linear*> done;
  for (const auto set : {&models::Mlp::up, &models::Mlp::down}) {
    const std::size_t parts =
        in_gguf && !block.experts.empty() ? (block.experts.front().*set).parts.size() : 0;
    for (std::size_t part = 0; part < parts; ++part) {
      result.push_back(of_experts(block, set, part));
      done.insert(result.back().begin(), result.back().end());
    }
  }
  for (const ops::LinearSet* set : models::linear_sets(block)) {
    for (const ops::Linear& part : set->parts) {
      if (!done.contains(&part)) {
        result.push_back({&part});
      }
    }
  }
  return result;
}

// All layers with the bytes of what they can become; losses are not known yet.
std::vector<Candidate> candidates(const models::Network& network, const Recipe& recipe) {
  const auto fixed = layer_schemes(network, recipe);
  const auto wanted = recipe.choices.empty() ? format_choices(recipe.scheme) : recipe.choices;
  std::vector<Candidate> result;
  for (const models::Block* block : models::all_blocks(network)) {
    for (const auto& layers : layers_together(*block, recipe.target->in_gguf)) {
      const ops::Linear& first = *layers.front();
      const auto at = fixed.find(first.name);
      if (at == fixed.end()) {
        continue;  // routers
      }
      Candidate candidate{layers, {}, {}};
      const bool free = !rule_for(recipe, first.name);
      for (const Scheme& scheme : free ? wanted : std::vector{at->second}) {
        if (fits_shape(*recipe.target, scheme, first.weight)) {
          const std::int64_t each =
              bytes_in(*recipe.target, scheme, first.weight.n, first.weight.k);
          candidate.schemes.push_back(scheme);
          candidate.offers.push_back({each * std::ssize(layers), 0.0});
        }
      }
      core::require(!candidate.offers.empty(), core::ErrorKind::kUsage,
                    "recipe '{}': none of its choices can hold layer {} ({} inputs)",
                    core::printable(recipe.name), first.name, first.weight.k);
      result.push_back(std::move(candidate));
    }
  }
  return result;
}

std::int64_t weights_of(const std::vector<Candidate>& layers) {
  std::int64_t weights = 0;
  for (const Candidate& candidate : layers) {
    for (const ops::Linear* layer : candidate.layers) {
      weights += layer->weight.n * layer->weight.k;
    }
  }
  return weights;
}

// Bytes of all weights outside the blocks' layers, with the output layer as it will be.
std::int64_t bytes_outside(const models::Network& network, const Recipe& recipe) {
  const std::int64_t now =
      models::total_weight_bytes(network) - models::block_weight_bytes(network);
  if (!recipe.output) {
    return now;
  }
  const formats::PackedWeight& output = network.output.parts.front().weight;
  const std::int64_t of_output = network.config.tied_output ? 0 : formats::stored_bytes(output);
  return now - of_output + bytes_in(*recipe.target, *recipe.output, output.n, output.k);
}

// Bytes that the layers of the blocks may take.
std::int64_t budget_of(const models::Network& network, const Recipe& recipe,
                       const std::vector<Candidate>& layers) {
  if (recipe.target->bits > 0) {
    return static_cast<std::int64_t>(recipe.target->bits * static_cast<double>(weights_of(layers)) /
                                     8);
  }
  return recipe.target->bytes - bytes_outside(network, recipe);
}

// Throws kUsage when not even the smallest offers keep to the budget.
void require_possible(const models::Network& network, const Recipe& recipe,
                      const std::vector<Candidate>& layers, std::int64_t budget) {
  std::int64_t least = 0;
  for (const Candidate& layer : layers) {
    const auto smallest =
        std::min_element(layer.offers.begin(), layer.offers.end(),
                         [](const Offer& a, const Offer& b) { return a.bytes < b.bytes; });
    least += smallest->bytes;
  }
  if (least <= budget) {
    return;
  }
  const std::string name = core::printable(recipe.name);
  if (recipe.target->bits > 0) {
    core::fail(core::ErrorKind::kUsage,
               "recipe '{}': {} bits per weight are too few; the smallest that its formats can do "
               "are {:.3f}",
               name, recipe.target->bits,
               8.0 * static_cast<double>(least) / static_cast<double>(weights_of(layers)));
  }
  core::fail(core::ErrorKind::kUsage,
             "recipe '{}': {} are too little; the smallest that its formats can do are {} "
             "({})",
             name, core::format_byte_size(recipe.target->bytes),
             core::format_byte_size(least + bytes_outside(network, recipe)),
             recipe.output ? "the embedding is not rounded"
                           : "embedding and output layer are not rounded");
}

}  // namespace

Recipe allocate_formats(const models::Network& network, const Recipe& recipe,
                        const std::map<std::string, LayerSensitivity>& sensitivity,
                        core::ThreadPool& pool, core::ProgressSink& progress) {
  const std::vector<Candidate> layers = candidates(network, recipe);
  const std::int64_t budget = budget_of(network, recipe, layers);
  require_possible(network, recipe, layers, budget);
  std::vector<std::vector<Offer>> offers;
  progress.begin("formats", static_cast<std::int64_t>(layers.size()));
  for (const Candidate& layer : layers) {
    offers.push_back(layer.offers);
    for (std::size_t i = 0; i < layer.schemes.size(); ++i) {
      for (const ops::Linear* linear : layer.layers) {
        offers.back()[i].loss +=
            predicted_loss(sensitivity.at(linear->name), linear->weight, layer.schemes[i], pool);
      }
    }
    progress.update(static_cast<std::int64_t>(offers.size()), layer.layers.front()->name);
  }
  progress.end();
  const std::vector<std::size_t> chosen = choose_offers(offers, budget);

  std::map<std::string, LayerRule> rules;  // by scheme
  std::int64_t bytes = 0;
  double loss = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Scheme& scheme = layers[i].schemes[chosen[i]];
    LayerRule& rule = rules.try_emplace(formats::to_string(scheme)).first->second;
    rule.scheme = scheme;
    for (const ops::Linear* layer : layers[i].layers) {
      rule.match.push_back(layer->name);
    }
    bytes += offers[i][chosen[i]].bytes;
    loss += offers[i][chosen[i]].loss;
  }
  Recipe result = recipe;
  result.target.reset();
  result.choices.clear();
  result.layers.clear();
  std::string summary;
  for (auto& [name, rule] : rules) {
    summary += fmt::format("{}{} x {}", summary.empty() ? "" : ", ", rule.match.size(), name);
    result.layers.push_back(std::move(rule));
  }
  progress.message(fmt::format(
      "{}: {:.3f} bits per weight; rounding to nearest would add about {:.4f} to the loss", summary,
      8.0 * static_cast<double>(bytes) / static_cast<double>(weights_of(layers)), loss));
  return result;
}

Recipe allocate_formats(const models::Model& model, const Recipe& recipe,
                        const CalibrationOptions& calibration, core::ProgressSink& progress) {
  const auto layers = candidates(model.network, recipe);
  require_possible(model.network, recipe, layers, budget_of(model.network, recipe, layers));
  CalibrationOptions few = calibration;
  few.samples = std::min(few.samples, kSensitivityWindows);
  const CalibrationInputs inputs = calibration_inputs(model, few, progress);
  ops::cpu::CpuOps ops({calibration.threads, ops::ActivationPrecision::kFloat});
  ops::cpu::reserve_blas_memory(ops.pool().size());
  const auto sensitivity = measure_sensitivity(model.network, inputs, few.seed, ops, progress);
  return allocate_formats(model.network, recipe, sensitivity, ops.pool(), progress);
}

}  // namespace nibble::compress
