#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/exchange/exchange.h"
#include "formats/packed_weight.h"
#include "gguf_blocks/block_types.h"

namespace nibble::models {

/// Rows of a matrix in a file: row i of the file is row order[i] of the layer; empty: as they are.
using RowOrder = std::vector<std::int64_t>;

/// The order of query and key rows that llama.cpp's rotary kernels read: rows i and i + half of a
/// head stand side by side. Throws kInvalidModel where rows are no multiple of 2 * heads.
RowOrder interleaved_rows(std::int64_t rows, std::int64_t heads);

/// The layer [n, k] of n * k / block_elements blocks of a type that has a scheme. Nothing is
/// rounded: decode_row gives what gguf_blocks::dequantize_blocks does. Throws kInvalidModel naming
/// `name` for scales that are not finite.
formats::exchange::ReadLayer layer_of_blocks(const gguf_blocks::BlockType& type,
                                             std::span<const std::byte> blocks, std::int64_t n,
                                             std::int64_t k, const RowOrder& rows,
                                             std::string_view name);

/// The block type that holds a weight as it is; null where there is none.
const gguf_blocks::BlockType* blocks_of_layer(const formats::PackedWeight& weight);

/// The bytes of a layer in the type of blocks_of_layer(): the inverse of layer_of_blocks().
std::vector<std::byte> write_blocks(const gguf_blocks::BlockType& type,
                                    const formats::PackedWeight& weight, const RowOrder& rows);

}  // namespace nibble::models
