#include "compress/block/decoded_block.h"

#include <algorithm>

#include "compress/block/compressed_block.h"

namespace nibble::compress {
namespace {

using formats::PackedWeight;
using models::Block;

// float32 copies of the weights of one layer.
core::Tensor float_weights(const PackedWeight& weight, core::ThreadPool& pool) {
  constexpr std::int64_t kRows = 16;  // of one task
  core::Tensor tensor = core::Tensor::zeros(core::DType::kF32, {weight.n, weight.k});
  auto values = tensor.mutable_data<float>();
  pool.parallel_for(weight.n, kRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      formats::decode_row(weight, row,
                          values.subspan(static_cast<std::size_t>(row * weight.k),
                                         static_cast<std::size_t>(weight.k)));
    }
  });
  return tensor;
}

}  // namespace

Block decoded(Block block, core::ThreadPool& pool) {
  for (ops::LinearSet* set : models::linear_sets(block)) {
    for (ops::Linear& part : set->parts) {
      const formats::Scheme& scheme = part.weight.scheme;
      if (!formats::is_dense(scheme) && scheme.activation.is_float() &&
          scheme.inputs == formats::Inputs()) {
        part.weight = formats::dense_weight(float_weights(part.weight, pool));
      }
    }
  }
  return block;
}

Block current_block(const BlockWork& work, const Block& block, core::ThreadPool& pool) {
  CompressedBlock changes;
  const auto add = [&](const ops::Norm& norm) {
    changes.vectors.emplace(norm.name + ".weight", stored_weight(norm));
    changes.vectors.emplace(norm.name + ".bias", norm.bias);
  };
  add(work.attention_norm());
  add(work.mlp_norm());
  if (work.cross_norm()) {
    add(*work.cross_norm());
  }
  for (const SetWork& set : work.sets()) {
    for (const LayerWork& layer : set.layers) {
      const std::string& name = layer.layer->name;
      changes.vectors.emplace(name + ".bias", layer.bias);
      if (layer.packed) {
        changes.layers.emplace(name, *layer.packed);
      } else {
        core::Tensor weights = core::Tensor::zeros(core::DType::kF32, {layer.n(), layer.k()});
        std::copy(layer.target.begin(), layer.target.end(), weights.mutable_data<float>().begin());
        changes.layers.emplace(name, formats::dense_weight(std::move(weights)));
      }
    }
  }
  return decoded(apply_compressed(block, changes), pool);
}

}  // namespace nibble::compress
