#include "tune/block_layers.h"

#include <span>

namespace nibble::tune {

compress::CompressedBlock packed_layers(const models::Block& block) {
  compress::CompressedBlock result;
  for (const ops::LinearSet* set : models::linear_sets(block)) {
    for (const ops::Linear& layer : set->parts) {
      if (!formats::is_dense(layer.weight.scheme)) {
        result.layers.emplace(layer.name, layer.weight);
      }
    }
  }
  return result;
}

std::vector<ops::Norm*> norms_of(models::Block& block) {
  std::vector<ops::Norm*> norms = {&block.attention_norm, &block.mlp_norm};
  for (auto* norm : {&block.attention_out_norm, &block.mlp_out_norm}) {
    if (*norm) {
      norms.push_back(&**norm);
    }
  }
  if (block.cross) {
    norms.push_back(&block.cross->norm);
  }
  return norms;
}

std::vector<float> decoded(const formats::PackedWeight& weight) {
  std::vector<float> values(static_cast<std::size_t>(weight.n * weight.k));
  for (std::int64_t row = 0; row < weight.n; ++row) {
    formats::decode_row(weight, row,
                        std::span(values).subspan(static_cast<std::size_t>(row * weight.k),
                                                  static_cast<std::size_t>(weight.k)));
  }
  return values;
}

}  // namespace nibble::tune
