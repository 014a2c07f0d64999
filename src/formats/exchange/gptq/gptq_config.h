#pragma once

#include <cstdint>

#include "core/json_type.h"

namespace nibble::formats::exchange {

/// What a stored zero point is.
enum class GptqZeros {
  kLessOne,    // zero - 1: "gptq", version 1
  kAsTheyAre,  // "gptq_v2"
};

struct GptqConfig {
  int bits = 4;
  std::int64_t group = 128;  // 0: a whole row
  bool symmetric = true;
  bool ordered = false;   // groups are scattered over the inputs ("desc_act")
  bool by_layer = false;  // layers may have other bits and groups ("dynamic")
  GptqZeros zeros = GptqZeros::kLessOne;
};

/// Throws kInvalidModel for formats, bits and groups that are not read.
GptqConfig read_gptq_config(const core::Json& config);

}  // namespace nibble::formats::exchange
