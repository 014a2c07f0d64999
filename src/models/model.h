#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/json.h"
#include "formats/scheme.h"
#include "models/network.h"
#include "models/tuned_step.h"
#include "models/weight_source.h"
#include "text/tokenizer.h"

namespace nibble::models {

/// What `quantization_config` in config.json says of a model that Nibble compressed.
struct CompressionInfo {
  std::string recipe;                              // "gptq-w4g128"
  std::map<std::string, formats::Scheme> schemes;  // by layer prefix; layers not named are dense
  std::optional<bool> keeps_inputs;  // whether layers read (and give) what those of the original
                                     // do, but for rounding; unknown in older folders
  std::optional<TunedStep> tuned;    // where a strategy chose the schemes
};

inline constexpr int kCheckpointVersion = 1;

/// A model opened from a Hugging Face folder (plain or compressed by Nibble) or from a GGUF file.
/// Weights are views of the mapped files.
struct Model {
  std::filesystem::path path;
  core::Json config_json;  // as in config.json; made from the metadata of a GGUF file
  CompressionInfo compression;
  std::shared_ptr<const WeightSource> source;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  Network network;

  /// Small files that belong to the model but do not lie beside it (a GGUF file's tokenizer), by
  /// name.
  std::map<std::string, std::string, std::less<>> companions;

  /// Ids that end a generation: of config.json, generation_config.json and the tokenizer.
  std::vector<std::int32_t> end_tokens;
};

/// Throws kInvalidModel (malformed, unsupported), kIo (missing), kOutOfMemory,
/// kUsage for the file of `nibble pack`.
std::shared_ptr<Model> open_model(const std::filesystem::path& path);

/// Gives the pages of a compressed layer's mapped parts back to the system, when its layout has
/// been made. They are read again when they are used again.
void release_pages(const Model& model, const ops::Linear& layer);

/// Bytes of the linear layers of all blocks as stored, and 8 * bytes / weights.
std::int64_t block_weight_bytes(const Network& network);
double block_bits_per_weight(const Network& network);

/// All weight bytes of the model as stored: blocks, norms, embeddings, output (once when tied).
std::int64_t total_weight_bytes(const Network& network);

}  // namespace nibble::models
