#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "gguf_blocks/block_types.h"
#include "io/gguf_value.h"

namespace nibble::io {

/// One tensor of a GGUF file.
struct GgufTensor {
  std::string name;
  core::Shape shape;                   // row-major: the file's dimensions, last one first
  const gguf_blocks::BlockType* type;  // of gguf_blocks::block_types()
  std::int64_t offset;                 // of its bytes, from the start of the file
  std::int64_t bytes;
};

/// What a GGUF file says before its data; everything in it has been checked against the file.
struct GgufContents {
  std::uint32_t version;
  std::int64_t alignment;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // in the order of the file
};

/// Reads a GGUF file, version 2 or 3, little-endian (github.com/ggml-org/ggml, docs/gguf.md):
///
///   "GGUF" | u32 version | u64 tensors | u64 keys
///   for each key:     string key | u32 type | value       string: u64 length | bytes
///                                                         array: u32 type | u64 count | values
///   for each tensor:  string name | u32 dimensions | u64 extent of each, fastest first
///                     | u32 type | u64 offset from the start of the data
///   zeros up to a multiple of general.alignment (32) | data of each tensor, padded likewise
///
/// Throws kInvalidModel, naming `what`, the field and its byte, for anything else: other versions
/// and big-endian files by name; counts, lengths or sizes larger than the file; empty, repeated or
/// unprintable names; unknown types; arrays of arrays; truth values other than 0 and 1; an
/// alignment that is not a power of two; zero extents; rows that are no multiple of the block;
/// tensors that overlap, leave holes, or end after the file.
GgufContents parse_gguf(std::span<const std::byte> file, std::string_view what);

}  // namespace nibble::io
