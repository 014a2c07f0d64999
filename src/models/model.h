#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/json_type.h"
#include "models/exchange/compression_info.h"
#include "models/foreign_layers.h"
#include "models/network.h"
#include "models/weight_source.h"
#include "text/tokenizer.h"

namespace nibble::models {

/// A model opened from a Hugging Face folder (plain, or compressed by Nibble or
/// another tool) or from a GGUF file.
/// Weights are views of the mapped files.
struct Model {
  std::filesystem::path path;
  core::HeldJson config_json;  // as in config.json; made from the metadata of a GGUF file
  CompressionInfo compression;
  std::shared_ptr<const WeightSource> source;
  std::shared_ptr<ForeignLayers> foreign;  // null where there is no source
  std::shared_ptr<const text::Tokenizer> tokenizer;
  Network network;

  /// Small files that belong to the model but do not lie beside it (a GGUF file's tokenizer), by
  /// name.
  std::map<std::string, std::string, std::less<>> companions;

  /// Ids that end a generation: of config.json, generation_config.json and the tokenizer.
  std::vector<std::int32_t> end_tokens;
};

/// What layers become that another tool compressed.
enum class StoredLayers {
  kAsTheyAre,   // compressed layers in a scheme that has the same codes and scales
  kZeroPoints,  // the same, but with zero points in the places of MLX's biases where that changes
                // weights little: for GPUs, where codes of 2 and 3 bits with minima take 4
  kDecoded,     // of GGUF files: float32, for what starts from an original model: quantizing it
};

/// Throws kInvalidModel (malformed, unsupported), kIo (missing), kOutOfMemory,
/// kUsage for the file of `nibble pack`.
std::shared_ptr<Model> open_model(const std::filesystem::path& path,
                                  StoredLayers stored = StoredLayers::kAsTheyAre);

/// Keeps the stored bytes of a layer there for who reads them after another may have let go of
/// them. In the end they are given back to the system: the pages of mapped files, and the memory of
/// layers that another tool compressed. Throws as ForeignLayers::hold().
class LayerHold {
 public:
  LayerHold(const Model& model, const ops::Linear& layer);
  ~LayerHold();
  LayerHold(const LayerHold&) = delete;
  LayerHold& operator=(const LayerHold&) = delete;

 private:
  const Model& model_;
  const ops::Linear& layer_;
};

/// Gives the pages of a compressed layer's mapped parts back to the system, when its layout has
/// been made. They are read again when they are used again.
void release_pages(const Model& model, const ops::Linear& layer);

/// Bytes of the linear layers of all blocks as stored, and 8 * bytes / weights.
std::int64_t block_weight_bytes(const Network& network);
double block_bits_per_weight(const Network& network);

/// All weight bytes of the model as stored: blocks, norms, embeddings, output (once when tied).
std::int64_t total_weight_bytes(const Network& network);

}  // namespace nibble::models
