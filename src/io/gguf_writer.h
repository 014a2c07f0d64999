#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "gguf_blocks/block_types.h"
#include "io/gguf_value.h"

namespace nibble::io {

/// A tensor of a GGUF file that is written. Its bytes are asked for when they are written, once.
struct GgufOutput {
  std::string name;
  core::Shape shape;  // row-major; rows are whole blocks
  const gguf_blocks::BlockType* type = nullptr;
  std::function<std::vector<std::byte>()> bytes;
};

using GgufKeys = std::map<std::string, GgufValue, std::less<>>;

/// Writes a GGUF file, version 3 (gguf_parser.h draws it), atomically. Tensors stand in the given
/// order, keys in that of their names, general.architecture first.
///
/// Throws kIo when the file exists or cannot be written; kFailed for a name that stands twice, a
/// row that is not whole blocks, and bytes of another number than the type and shape say.
void write_gguf(const std::filesystem::path& path, const GgufKeys& keys,
                const std::vector<GgufOutput>& tensors);

}  // namespace nibble::io
