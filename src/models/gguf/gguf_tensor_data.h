#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/threads.h"
#include "gguf_blocks/block_types.h"
#include "models/exchange/conversion.h"
#include "models/gguf/gguf_layers.h"
#include "ops/layers.h"

namespace nibble::models {

/// The scheme that a user calls by its GGUF type ("Q4_K", "q8_0", "F16") or as parse_scheme() takes
/// it. Throws kInvalidModel for other words.
formats::Scheme scheme_of_gguf_type(std::string_view name);

/// The type of GGUF that holds a layer: that of blocks_of_layer(), else Q4_0, Q4_1 or Q8_0 for
/// codes, F32, F16 or BF16 for plain numbers, and F16 for codes where rows are no multiple of 32.
/// `asked`: the scheme that layers shall have, where one was given; of blocks of 256 weights IQ4_NL
/// (up to 4 bits) or Q8_0 takes the place where rows are no multiple of that. Throws kUsage for one
/// that GGUF has no type for.
const gguf_blocks::BlockType& gguf_type_of(const formats::PackedWeight& weight,
                                           const std::optional<formats::Scheme>& asked);

/// The bytes of a layer in `type`, and what that changed. `asked` as above: without it nothing is
/// rounded to other blocks than Q4_0, Q4_1 and Q8_0. Throws kInvalidModel where that would have to
/// be, since another layer of the same tensor has `type`.
struct GgufLayer {
  std::vector<std::byte> bytes;
  ConvertedLayer report;
};
GgufLayer gguf_layer(const ops::Linear& layer, const gguf_blocks::BlockType& type,
                     const RowOrder& rows, const std::optional<formats::Scheme>& asked,
                     const Rounder& round, core::ThreadPool& pool);

}  // namespace nibble::models
