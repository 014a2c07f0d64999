#include "compress/block/compressed_block.h"

#include "models/weight_source.h"

namespace nibble::compress {

std::vector<float> stored_weight(const ops::Norm& norm) {
  std::vector<float> weight = norm.weight;
  for (float& value : weight) {
    value -= norm.stored_less;
  }
  return weight;
}

namespace {

using Vectors = std::map<std::string, std::vector<float>>;

void keep_if_changed(const std::string& name, const std::vector<float>& now,
                     const std::vector<float>& before, Vectors& vectors) {
  if (now != before) {
    vectors.emplace(name, now);
  }
}

void keep_if_changed(const ops::Norm& now, const ops::Norm& before, Vectors& vectors) {
  if (now.weight != before.weight) {
    vectors.emplace(before.name + ".weight", stored_weight(now));
  }
  keep_if_changed(before.name + ".bias", now.bias, before.bias, vectors);
}

void replace(std::vector<float>& values, const std::string& name, const Vectors& vectors) {
  if (const auto found = vectors.find(name); found != vectors.end()) {
    values = found->second;
  }
}

void replace(ops::Norm& norm, const Vectors& vectors) {
  if (const auto found = vectors.find(norm.name + ".weight"); found != vectors.end()) {
    norm.weight = found->second;
    for (float& value : norm.weight) {
      value += norm.stored_less;
    }
  }
  replace(norm.bias, norm.name + ".bias", vectors);
}

}  // namespace

CompressedBlock take_compressed(BlockWork& work, const models::Block& transformed,
                                const models::Block& original) {
  CompressedBlock result;
  keep_if_changed(work.attention_norm(), original.attention_norm, result.vectors);
  keep_if_changed(work.mlp_norm(), original.mlp_norm, result.vectors);
  if (original.cross) {
    keep_if_changed(*work.cross_norm(), original.cross->norm, result.vectors);
  }
  Vectors biases;
  for (const ops::LinearSet* set : models::linear_sets(original)) {
    for (const ops::Linear& part : set->parts) {
      biases.emplace(part.name, part.bias);
    }
  }
  for (SetWork& set : work.sets()) {
    for (LayerWork& layer : set.layers) {
      const std::string& name = layer.layer->name;
      core::require(layer.packed.has_value(), core::ErrorKind::kUsage,
                    "the recipe has no pass that rounds (rtn, gptq); layer {} stays as it is",
                    name);
      keep_if_changed(name + ".bias", layer.bias, biases.at(name), result.vectors);
      result.layers.emplace(name, *std::move(layer.packed));
    }
  }
  if (original.router && transformed.router->parts.front().weight.dense.raw() !=
                             original.router->parts.front().weight.dense.raw()) {
    const ops::Linear& router = transformed.router->parts.front();
    result.layers.emplace(router.name, router.weight);
  }
  return result;
}

models::Block apply_compressed(const models::Block& original, const CompressedBlock& compressed) {
  models::Block block = original;
  replace(block.attention_norm, compressed.vectors);
  replace(block.mlp_norm, compressed.vectors);
  if (block.cross) {
    replace(block.cross->norm, compressed.vectors);
  }
  ops::LinearSet& qkv = block.attention.qkv;
  replace(block.attention.spec.key_centre, models::key_centre_name(qkv), compressed.vectors);
  for (ops::LinearSet* set : models::linear_sets(block)) {
    for (ops::Linear& part : set->parts) {
      replace(part.bias, part.name + ".bias", compressed.vectors);
      if (const auto layer = compressed.layers.find(part.name); layer != compressed.layers.end()) {
        part.weight = layer->second;
      }
    }
  }
  return block;
}

}  // namespace nibble::compress
