#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json_type.h"

namespace nibble::models {

inline constexpr const char* kLoraConfigFile = "adapter_config.json";

/// What adapter_config.json says of a PEFT LoRA adapter.
struct LoraConfig {
  std::int64_t rank = 0;
  float scale = 1.0f;                // lora_alpha / r; / sqrt(r) with use_rslora
  std::vector<std::string> targets;  // target_modules, when it is a list that covers every layer;
                                     // else empty
};

/// Throws kInvalidModel naming the field when it is malformed, or asks for something that is not
/// built.
LoraConfig read_lora_config(const core::Json& config);

}  // namespace nibble::models
