#include "tune/qat/student.h"

#include <algorithm>

#include "compress/recipe/layer_schemes.h"
#include "core/error.h"
#include "formats/format.h"
#include "tune/block_layers.h"

namespace nibble::tune {
namespace {

constexpr std::int64_t kRowsPerTask = 16;

// Of the learning rate, for scores: as far as 1e-2 is from 1e-4, the rates of movement pruning for
// scores and weights.
constexpr float kScoreRate = 100.0f;

void store(const ops::Linear& layer, compress::CompressedBlock& to) {
  to.layers.emplace(layer.name, layer.weight);
  if (!layer.bias.empty()) {
    to.vectors.emplace(layer.name + ".bias", layer.bias);
  }
}

void store(const ops::Norm& norm, compress::CompressedBlock& to) {
  to.vectors.emplace(norm.name + ".weight", compress::stored_weight(norm));
  if (!norm.bias.empty()) {
    to.vectors.emplace(norm.name + ".bias", norm.bias);
  }
}

}  // namespace

Student::Student(const models::Network& original, const compress::Recipe& recipe,
                 const Pruning& pruning, ops::cpu::CpuOps& ops)
    : ops_(ops),
      pruning_(pruning),
      network_(original),
      schemes_(compress::layer_schemes(original, recipe)) {
  for (models::Block* block : models::all_blocks(network_)) {
    core::require(block->experts.empty(), core::ErrorKind::kUsage,
                  "students with experts are not trained");
    for (ops::LinearSet* set : models::linear_sets(*block)) {
      add(*set, pruning.any());
    }
    for (ops::Norm* norm : norms_of(*block)) {
      add(*norm);
    }
  }
  for (ops::LinearSet* set : head_sets()) {
    add(*set, false);
  }
  if (network_.classifier && network_.classifier->head.norm) {
    add(*network_.classifier->head.norm);
  }
  round();
}

std::vector<ops::LinearSet*> Student::head_sets() {
  std::vector<ops::LinearSet*> sets;
  if (network_.classifier) {
    models::Head& head = network_.classifier->head;
    if (head.dense) {
      sets.push_back(&*head.dense);
    }
    sets.push_back(&head.out);
  }
  return sets;
}

void Student::add(ops::LinearSet& set, bool prunes) {
  sets_.push_back(&set);
  for (ops::Linear& layer : set.parts) {
    core::require(formats::is_dense(layer.weight.scheme) && !layer.low_rank,
                  core::ErrorKind::kUsage,
                  "layer {} is compressed or has an adapter; train the original model",
                  core::printable(layer.name));
    const auto found = schemes_.find(layer.name);
    const bool rounds = found != schemes_.end();
    parameters_.push_back(
        std::make_unique<Parameter>(layer.name + ".weight", decoded(layer.weight), 1.0f, true));
    gradients_.add(layer.weight, parameters_.back()->gradient);
    weights_.push_back({parameters_.back().get(), &layer,
                        rounds ? found->second : layer.weight.scheme, prunes && rounds});
    if (pruning_.by_movement && weights_.back().prunes) {
      add_scores(weights_.back());
    }
    if (!layer.bias.empty()) {
      add_vector(layer.name + ".bias", layer.bias);
    }
  }
}

void Student::add(ops::Norm& norm) {
  add_vector(norm.name + ".weight", norm.weight);
  if (!norm.bias.empty()) {
    add_vector(norm.name + ".bias", norm.bias);
  }
}

void Student::add_vector(const std::string& name, std::vector<float>& values) {
  parameters_.push_back(std::make_unique<Parameter>(name, values));
  gradients_.add(values, parameters_.back()->gradient);
  vectors_.push_back({parameters_.back().get(), &values});
}

void Student::add_scores(Weight& weight) {
  const std::size_t count = weight.parameter->values.size();
  weight.scores = parameters_
                      .emplace_back(std::make_unique<Parameter>(
                          weight.layer->name + ".scores", std::vector<float>(count), kScoreRate))
                      .get();
}

void Student::prune_rows(const Weight& weight, std::span<float> values) const {
  const auto k = static_cast<std::size_t>(weight.layer->weight.k);
  ops_.pool().parallel_for(
      weight.layer->weight.n, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
        for (auto row = static_cast<std::size_t>(begin); row < static_cast<std::size_t>(end);
             ++row) {
          const auto scores =
              weight.scores == nullptr
                  ? std::span<const float>()
                  : std::span<const float>(weight.scores->values).subspan(row * k, k);
          prune(values.subspan(row * k, k), scores, pruning_);
        }
      });
}

void Student::share_gradients() {
  for (const Weight& weight : weights_) {
    if (weight.scores == nullptr) {
      continue;
    }
    const std::vector<float>& values = weight.parameter->values;
    std::vector<float> kept = values;
    prune_rows(weight, kept);
    for (std::size_t i = 0; i < values.size(); ++i) {
      float& gradient = weight.parameter->gradient[i];
      weight.scores->gradient[i] = gradient * values[i];
      gradient = kept[i] == 0.0f ? 0.0f : gradient;
    }
  }
}

void Student::round() {
  std::vector<float> pruned;
  for (const Weight& weight : weights_) {
    const std::int64_t n = weight.layer->weight.n;
    const std::int64_t k = weight.layer->weight.k;
    const std::span<const float> all = weight.parameter->values;
    std::span<const float> values = all;
    if (weight.prunes) {
      pruned.assign(all.begin(), all.end());
      prune_rows(weight, pruned);
      values = pruned;
    }
    const std::span<const float> ranges = pruning_.after_rounding ? all : values;
    weight.layer->weight =
        formats::round_to_nearest(values, n, k, weight.scheme, ops_.pool(), ranges);
  }
  for (const Vector& vector : vectors_) {
    *vector.values = vector.parameter->values;
  }
  for (const ops::LinearSet* set : sets_) {
    ops_.prepare(*set);
  }
}

std::vector<compress::CompressedBlock> Student::compressed() const {
  std::vector<compress::CompressedBlock> blocks;
  models::Network network = network_;
  for (models::Block* block : models::all_blocks(network)) {
    compress::CompressedBlock& stored = blocks.emplace_back();
    for (const ops::LinearSet* set : models::linear_sets(*block)) {
      for (const ops::Linear& layer : set->parts) {
        store(layer, stored);
      }
    }
    for (const ops::Norm* norm : norms_of(*block)) {
      store(*norm, stored);
    }
  }
  if (network.classifier) {
    const models::Head& head = network.classifier->head;
    for (const ops::Linear& layer : head.out.parts) {
      store(layer, blocks.back());
    }
    if (head.dense) {
      store(head.dense->parts.front(), blocks.back());
    }
    if (head.norm) {
      store(*head.norm, blocks.back());
    }
  }
  return blocks;
}

}  // namespace nibble::tune
