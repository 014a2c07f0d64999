#pragma once

#include <cstdint>
#include <string>

#include "core/json_type.h"
#include "formats/exchange/compressed_tensors/activation_rule.h"

namespace nibble::formats::exchange {

/// How the layers of a checkpoint of compressed-tensors are stored.
enum class LayerFormat {
  kPackedIntegers,  // pack-quantized
  kIntegers,        // int-quantized, naive-quantized
  kFp8,             // float-quantized, naive-quantized
  kNvfp4,
  kMxfp4,
};

/// What shares a scale.
enum class Strategy { kTensor, kChannel, kGroup };

struct LayerConfig {
  LayerFormat format = LayerFormat::kPackedIntegers;
  std::string format_name;
  int bits = 4;
  bool symmetric = true;
  Strategy strategy = Strategy::kGroup;
  std::int64_t group = 0;  // of kGroup
  ActivationRule activations;
};

/// Throws kInvalidModel naming what is not read.
LayerConfig read_layer_config(const core::Json& config);

}  // namespace nibble::formats::exchange
