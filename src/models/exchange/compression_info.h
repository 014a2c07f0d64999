#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/json_type.h"
#include "formats/exchange/exchange.h"
#include "formats/scheme.h"
#include "models/tuned_step.h"

namespace nibble::models {

/// What `quantization_config` in config.json says of a model that was compressed.
struct CompressionInfo {
  std::string recipe;                              // "gptq-w4g128"; of another tool what it says
  std::map<std::string, formats::Scheme> schemes;  // by layer prefix; layers not named are dense
  std::optional<bool> keeps_inputs;  // whether layers read (and give) what those of the original
                                     // do, but for rounding; unknown in older folders
  std::optional<TunedStep> tuned;    // where a strategy chose the schemes
  std::shared_ptr<const formats::exchange::Reader> reader;  // of what another tool compressed
  std::vector<std::string> remarks;  // what of that is not as its files have it, a sentence each
};

inline constexpr int kCheckpointVersion = 1;

/// Reads it; schemes and remarks of another tool's layers are those of the layers, and not here.
/// Throws kInvalidModel for what cannot be read.
CompressionInfo read_compression(const core::Json& config);

/// Puts `quantization_config` into `config`, where a tool wrote it elsewhere: under "quantization"
/// (mlx-lm), or into a file of its own in the folder: quantize_config.json (AutoGPTQ),
/// quant_config.json (AutoAWQ).
void add_older_config(core::Json& config, const std::filesystem::path& folder);

}  // namespace nibble::models
