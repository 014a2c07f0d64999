#include "eval/strategy/part_models.h"

#include "compress/pipeline/pipeline.h"
#include "core/error.h"

namespace nibble::eval {
namespace {

models::PartSchemes in_all_parts(const formats::Scheme& scheme) {
  models::PartSchemes schemes;
  for (const models::LayerPart part : models::kLayerParts) {
    schemes.emplace(part, scheme);
  }
  return schemes;
}

// Takes the weights of a part from `source`, a network of the same shape.
void take_part(models::LayerPart part, const models::Network& source, models::Network& network) {
  const auto from = models::all_blocks(source);
  const auto to = models::all_blocks(network);
  for (std::size_t b = 0; b < to.size(); ++b) {
    const auto from_sets = models::linear_sets(*from[b]);
    const auto to_sets = models::linear_sets(*to[b]);
    for (std::size_t s = 0; s < to_sets.size(); ++s) {
      if (models::part_of(*to[b], *to_sets[s]) != part) {
        continue;
      }
      for (std::size_t i = 0; i < to_sets[s]->parts.size(); ++i) {
        to_sets[s]->parts[i].weight = from_sets[s]->parts[i].weight;
      }
    }
  }
}

}  // namespace

PartModels::PartModels(std::shared_ptr<const models::Model> original, int threads)
    : original_(std::move(original)), threads_(threads) {
  core::require(original_->compression.schemes.empty(), core::ErrorKind::kUsage,
                "{} is compressed already; strategies are chosen for the original model",
                core::printable(original_->path.string()));
}

const models::Model& PartModels::whole(const formats::Scheme& scheme,
                                       core::ProgressSink& progress) {
  const auto [at, is_new] = whole_.try_emplace(formats::to_string(scheme));
  if (is_new) {
    compress::PipelineOptions options;
    options.threads = threads_;
    const compress::Recipe recipe =
        compress::with_parts(compress::find_recipe("i8-qall"), in_all_parts(scheme));
    at->second = compress::quantize_in_memory(*original_, recipe, options, progress).model;
  }
  return *at->second;
}

std::shared_ptr<const models::Model> PartModels::with(const models::PartSchemes& schemes,
                                                      core::ProgressSink& progress) {
  if (schemes.empty()) {
    return original_;
  }
  auto made = std::make_shared<models::Model>(*original_);
  const auto parts = parts_by_layer(original_->network);
  made->compression.recipe = models::to_string(schemes);
  made->compression.keeps_inputs = true;
  for (const auto& [part, scheme] : schemes) {
    take_part(part, whole(scheme, progress).network, made->network);
  }
  for (const auto& [name, part] : parts) {
    if (const auto scheme = schemes.find(part); scheme != schemes.end()) {
      made->compression.schemes.emplace(name, scheme->second);
    }
  }
  return made;
}

std::map<std::string, models::LayerPart> parts_by_layer(const models::Network& network) {
  std::map<std::string, models::LayerPart> parts;
  for (const models::Block* block : models::all_blocks(network)) {
    for (const ops::LinearSet* set : models::linear_sets(*block)) {
      if (const auto part = models::part_of(*block, *set)) {
        for (const ops::Linear& layer : set->parts) {
          parts.emplace(layer.name, *part);
        }
      }
    }
  }
  return parts;
}

}  // namespace nibble::eval
