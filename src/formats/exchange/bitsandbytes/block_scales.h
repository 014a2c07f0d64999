#pragma once

#include <cstdint>
#include <vector>

#include "formats/exchange/exchange.h"

namespace nibble::formats::exchange {

/// What the JSON of a layer says that its other parts do not.
struct QuantState {
  std::int64_t block = 64;        // codes that share a scale; divides k
  std::int64_t nested_block = 0;  // scales that share one; 0: scales are not quantized
  float nested_offset = 0;        // added to each of them
};

/// Reads it. Throws kInvalidModel naming the layer when it is missing, malformed, of another shape,
/// or when blocks go over the end of a row.
QuantState read_quant_state(const StoredLayer& layer);

/// The scale of each block, [n * k / block], in float32 as bitsandbytes computes it.
std::vector<float> block_scales(const StoredLayer& layer, const QuantState& state);

}  // namespace nibble::formats::exchange
