#include "models/lora/lora_adapter.h"

#include <algorithm>
#include <cmath>

#include "core/json.h"
#include "formats/format.h"
#include "io/file_descriptor.h"
#include "io/json_file.h"
#include "io/safetensors.h"
#include "models/lora/lora_config.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using core::Tensor;

constexpr std::string_view kRoot = "base_model.model.";
constexpr std::string_view kA = ".lora_A.weight";
constexpr std::string_view kB = ".lora_B.weight";
constexpr const char* kTensorFile = "adapter_model.safetensors";

void require_numbers(const Tensor& tensor, const std::string& name) {
  const core::DType type = tensor.dtype();
  core::require(
      type == core::DType::kF32 || type == core::DType::kF16 || type == core::DType::kBF16,
      ErrorKind::kInvalidModel, "adapter tensor '{}' holds {}, expected F32, F16 or BF16",
      core::printable(name), core::name_of(type));
  const std::vector<float> values = core::to_float32(tensor);
  core::require(
      std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }),
      ErrorKind::kInvalidModel, "adapter tensor '{}' holds NaN or infinite values",
      core::printable(name));
}

void require_shape(const Tensor& tensor, const std::string& layer, std::string_view end,
                   const core::Shape& expected) {
  core::require(tensor.shape() == expected, ErrorKind::kInvalidModel,
                "adapter tensor '{}{}{}' has shape {}, expected {}", kRoot, core::printable(layer),
                end, core::printable(tensor.shape()), core::printable(expected));
}

// Checkpoints and adapters exist with and without the name of the part that holds the layers.
const ops::Linear* find_layer(const std::map<std::string, const ops::Linear*>& layers,
                              const std::string& name) {
  if (const auto found = layers.find(name); found != layers.end()) {
    return found->second;
  }
  for (const std::string part : {"transformer.", "model."}) {
    const std::string other = name.starts_with(part) ? name.substr(part.size()) : part + name;
    if (const auto found = layers.find(other); found != layers.end()) {
      return found->second;
    }
  }
  return nullptr;
}

std::map<std::string, const ops::Linear*> layers_of(const Network& network) {
  std::map<std::string, const ops::Linear*> layers;
  for (const Block& block : network.decoder.blocks) {
    for (const ops::LinearSet* set : linear_sets(block)) {
      for (const ops::Linear& part : set->parts) {
        layers.emplace(part.name, &part);
      }
    }
  }
  return layers;
}

// PEFT's rule: the whole name, or its end behind a dot.
bool targets(const std::vector<std::string>& targets, const std::string& layer) {
  return std::any_of(targets.begin(), targets.end(), [&](const std::string& target) {
    return layer == target || layer.ends_with("." + target);
  });
}

// In 16 bits, as it is stored or rounded to F16.
formats::PackedWeight sixteen_bits(const Tensor& tensor, const std::string& layer) {
  if (tensor.dtype() != core::DType::kF32) {
    return formats::dense_weight(tensor);
  }
  formats::Scheme scheme;
  scheme.code.dense = core::DType::kF16;
  try {
    return formats::round_to_nearest(tensor.data<float>(), tensor.dim(0), tensor.dim(1), scheme);
  } catch (const core::Error& error) {
    core::fail(error.kind(), "adapter of layer {}: {}", core::printable(layer), error.what());
  }
}

// W + scale B A, row by row: [n, k].
Tensor merged_weight(const Tensor& weight, const LoraPair& pair, float scale,
                     core::ThreadPool& pool) {
  constexpr std::int64_t kRows = 16;  // rows of one task
  const std::vector<float> a = core::to_float32(pair.a);
  const std::vector<float> b = core::to_float32(pair.b);
  const auto k = static_cast<std::size_t>(weight.dim(1));
  const std::size_t rank = a.size() / k;
  Tensor merged = Tensor::from<float>(core::to_float32(weight), weight.shape());
  float* values = merged.mutable_data<float>().data();
  pool.parallel_for(weight.dim(0), kRows, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      for (std::size_t r = 0; r < rank; ++r) {
        const float factor = scale * b[i * rank + r];
        for (std::size_t j = 0; j < k; ++j) {
          values[i * k + j] += factor * a[r * k + j];
        }
      }
    }
  });
  return merged;
}

void require_same_inputs(const Model& model) {
  const CompressionInfo& info = model.compression;
  if (info.schemes.empty()) {
    return;
  }
  core::require(info.keeps_inputs.has_value(), ErrorKind::kUsage,
                "{} does not say whether its layers read what those of the original do; compress "
                "the original again to run it with an adapter",
                io::shown(model.path));
  core::require(*info.keeps_inputs, ErrorKind::kUsage,
                "{} was compressed by recipe '{}', which scales or turns what its layers read, so "
                "that an adapter of the original does not fit; merge the adapter when the original "
                "is compressed (quantize --merge-lora)",
                io::shown(model.path), core::printable(info.recipe));
}

}  // namespace

LoraAdapter LoraAdapter::open(const std::filesystem::path& folder) {
  LoraAdapter adapter;
  adapter.path_ = folder;
  core::require(std::filesystem::exists(folder / kLoraConfigFile), ErrorKind::kIo,
                "{} has no {}; give the folder of a PEFT adapter", io::shown(folder),
                kLoraConfigFile);
  const LoraConfig config = read_lora_config(io::load_json_file(folder / kLoraConfigFile));
  adapter.rank_ = config.rank;
  adapter.scale_ = config.scale;
  adapter.targets_ = config.targets;
  adapter.read_tensors();
  return adapter;
}

void LoraAdapter::read_tensors() {
  core::require(std::filesystem::exists(path_ / kTensorFile), ErrorKind::kIo,
                "{} has no {}; adapters stored as pickles (.bin) are not read, because they run "
                "code: save the adapter again with safe_serialization=True",
                io::shown(path_), kTensorFile);
  const auto file = io::SafetensorsFile::open(path_ / kTensorFile);
  for (const std::string& name : file->names()) {
    core::require(name.find("lora_embedding_") == std::string::npos, ErrorKind::kInvalidModel,
                  "adapter tensor '{}' changes an embedding, which is not built",
                  core::printable(name));
    const bool is_a = name.ends_with(kA);
    core::require(name.starts_with(kRoot) && (is_a || name.ends_with(kB)), ErrorKind::kInvalidModel,
                  "adapter tensor '{}' is not known; expected {}<layer>{} and {}",
                  core::printable(name), kRoot, kA, kB);
    const std::size_t ends = kRoot.size() + kA.size();
    core::require(name.size() > ends, ErrorKind::kInvalidModel,
                  "adapter tensor '{}' names no layer", core::printable(name));
    const std::string layer = name.substr(kRoot.size(), name.size() - ends);
    const Tensor tensor = file->tensor(name);
    require_numbers(tensor, name);
    bytes_ += tensor.bytes();
    (is_a ? pairs_[layer].a : pairs_[layer].b) = tensor;
  }
  core::require(!pairs_.empty(), ErrorKind::kInvalidModel, "{} holds no tensors", io::shown(path_));
  for (const auto& [layer, pair] : pairs_) {
    core::require(!pair.a.empty() && !pair.b.empty(), ErrorKind::kInvalidModel,
                  "the adapter has no tensor '{}{}{}'", kRoot, core::printable(layer),
                  pair.a.empty() ? kA : kB);
  }
}

std::map<std::string, LoraPair> LoraAdapter::pairs_for(const Network& network) const {
  const auto layers = layers_of(network);
  std::map<std::string, LoraPair> found;
  for (const auto& [name, pair] : pairs_) {
    const ops::Linear* layer = find_layer(layers, name);
    core::require(layer != nullptr, ErrorKind::kInvalidModel,
                  "adapter tensor '{}{}{}' belongs to no linear layer of the model's blocks "
                  "(adapters of embeddings and of the output layer are not built)",
                  kRoot, core::printable(name), kA);
    core::require(targets_.empty() || targets(targets_, name), ErrorKind::kInvalidModel,
                  "adapter tensor '{}{}{}' belongs to a layer that target_modules does not list",
                  kRoot, core::printable(name), kA);
    require_shape(pair.a, name, kA, {rank_, layer->weight.k});
    require_shape(pair.b, name, kB, {layer->weight.n, rank_});
    core::require(found.emplace(layer->name, pair).second, ErrorKind::kInvalidModel,
                  "the adapter has two pairs for layer '{}'", core::printable(layer->name));
  }
  for (const auto& [name, layer] : layers) {
    core::require(!targets(targets_, name) || found.contains(name), ErrorKind::kInvalidModel,
                  "the adapter has no tensor '{}{}{}', though target_modules lists that layer",
                  kRoot, core::printable(name), kA);
  }
  return found;
}

std::shared_ptr<Model> with_adapter(const Model& model, const LoraAdapter& adapter, float factor) {
  require_same_inputs(model);
  const auto pairs = adapter.pairs_for(model.network);
  auto result = std::make_shared<Model>(model);
  for (Block& block : result->network.decoder.blocks) {
    for (ops::LinearSet* set : linear_sets(block)) {
      for (ops::Linear& part : set->parts) {
        if (const auto found = pairs.find(part.name); found != pairs.end()) {
          part.low_rank =
              ops::LowRank{sixteen_bits(found->second.a, part.name),
                           sixteen_bits(found->second.b, part.name), adapter.scale() * factor};
        }
      }
    }
  }
  return result;
}

Block merge_adapter(const Block& block, const std::map<std::string, LoraPair>& pairs, float scale,
                    core::ThreadPool& pool) {
  Block merged = block;
  for (ops::LinearSet* set : linear_sets(merged)) {
    for (ops::Linear& part : set->parts) {
      const auto found = pairs.find(part.name);
      if (found == pairs.end()) {
        continue;
      }
      const Tensor weight = merged_weight(part.weight.dense, found->second, scale, pool);
      const auto values = weight.data<float>();
      core::require(std::all_of(values.begin(), values.end(),
                                [](float value) { return std::isfinite(value); }),
                    ErrorKind::kInvalidModel, "layer {} with the adapter merged is not finite",
                    core::printable(part.name));
      part.weight = formats::dense_weight(weight);
    }
  }
  return merged;
}

}  // namespace nibble::models
