#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/dtype.h"

namespace nibble::io {

/// Writes the values of one block: `block` holds block_bytes bytes, `values` block_elements floats.
using BlockDecoder = void (*)(const std::uint8_t* block, float* values);

/// How the elements of a GGUF tensor are stored: blocks of `block_elements` neighbours along a row.
struct GgufBlockType {
  std::uint32_t id;       // in the file
  std::string_view name;  // "Q4_K"
  std::int64_t block_elements;
  std::int64_t block_bytes;
  std::optional<core::DType> dense;  // plain numbers of that type
  BlockDecoder decode;               // null: plain numbers, or a type that is not supported
};

/// All types whose block size is known, supported or not.
std::span<const GgufBlockType> gguf_block_types();

/// Null for an unknown id.
const GgufBlockType* find_gguf_block_type(std::uint32_t id);

/// Decodes `count` blocks that follow one another.
void dequantize_blocks(const GgufBlockType& type, const std::uint8_t* blocks, std::int64_t count,
                       float* values);

}  // namespace nibble::io
