#include "models/exchange/model_layers.h"

#include <cstring>

#include "core/json.h"
#include "models/family.h"

namespace nibble::models {

std::vector<const ops::Linear*> layers_of(const Block& block) {
  std::vector<const ops::Linear*> layers;
  for (const ops::LinearSet* set : linear_sets(block)) {
    for (const ops::Linear& layer : set->parts) {
      layers.push_back(&layer);
    }
  }
  return layers;
}

std::vector<const ops::Linear*> layers_to_convert(const Network& network) {
  std::vector<const ops::Linear*> all;
  std::vector<const ops::Linear*> compressed;
  for (const Block* block : all_blocks(network)) {
    for (const ops::Linear* layer : layers_of(*block)) {
      if (block->router && layer == &block->router->parts.front()) {
        continue;  // small, and it decides
      }
      all.push_back(layer);
      if (!formats::is_dense(layer->weight.scheme)) {
        compressed.push_back(layer);
      }
    }
  }
  return compressed.empty() ? all : compressed;
}

bool stores_conv1d(const Model& model) {
  return find_family(model.network.config.family).names.conv1d;
}

std::set<std::string, std::less<>> weight_names(const Model& model, const ops::Linear& layer) {
  std::set<std::string, std::less<>> names = {layer.name + ".weight"};
  for (const formats::PartSlot& slot : formats::part_slots()) {
    names.insert(fmt::format("{}.{}", layer.name, slot.name));
  }
  if (model.compression.reader) {
    for (const std::string_view part : model.compression.reader->part_names()) {
      names.insert(fmt::format("{}.{}", layer.name, part));
    }
  }
  return names;
}

core::DType float_type_of(const core::Json& config) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const auto at = config.find(key);
    if (at != config.end() && *at == "bfloat16") {
      return core::DType::kBF16;
    }
  }
  return core::DType::kF16;
}

core::Tensor transposed(const core::Tensor& matrix) {
  const std::int64_t rows = matrix.dim(0);
  const std::int64_t columns = matrix.dim(1);
  const auto size = core::size_of(matrix.dtype());
  core::Tensor result = core::Tensor::zeros(matrix.dtype(), {columns, rows});
  std::byte* const to = result.mutable_raw();
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      std::memcpy(to + (j * rows + i) * size, matrix.raw() + (i * columns + j) * size,
                  static_cast<std::size_t>(size));
    }
  }
  return result;
}

}  // namespace nibble::models
