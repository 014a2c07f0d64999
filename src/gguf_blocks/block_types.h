#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/dtype.h"
#include "core/float16.h"

namespace nibble::gguf_blocks {

inline constexpr std::int64_t kMostBlockElements = 256;
inline constexpr std::int64_t kMostBlockGroups = 16;

/// What a block holds, whatever the order of its bits. Groups of neighbours share a scale.
struct Block {
  std::uint8_t codes[kMostBlockElements] = {};  // [elements], not below 0
  std::int8_t scales[kMostBlockGroups] = {};    // [groups], times d
  std::int8_t minima[kMostBlockGroups] = {};    // [groups], times m
  core::Fp16 d;
  core::Fp16 m;               // of types with minima; with the sign that makes them added
  std::uint8_t exponent = 0;  // in place of d: 2^(exponent - 127)
};

/// What the scale of a group is.
enum class BlockScale {
  kHalf,       // d: the block is one group
  kMultiples,  // scales[g] * d
  kExponent,   // 2^(exponent - 127), NaN for 255 (E8M0): the block is one group
};

/// How blocks of a type become numbers, with the scale of the group:
///
///   w = scale * (code - zero)                   integers
///   w = scale * code + minima[g] * m            integers with minima (minima[g] is 1 for kHalf)
///   w = scale * book[code]                      entries of a book
struct BlockForm {
  std::int64_t group;  // elements
  int bits;            // of a code
  int zero;
  BlockScale scale;
  bool minima;
  std::span<const float> book;  // none: integers
  int least_multiple;           // of kMultiples: of scales; types without a sign have 0 here, as
  int most_multiple;            // their minima have
  void (*unpack)(const std::uint8_t* block, Block& parts);
  /// Writes block_bytes bytes; unpack() of them gives the parts again.
  void (*pack)(const Block& parts, std::uint8_t* block);
};

/// How the elements of a GGUF tensor are stored: blocks of `block_elements` neighbours along a row.
struct BlockType {
  std::uint32_t id;       // in the file
  std::string_view name;  // "Q4_K"
  std::int64_t block_elements;
  std::int64_t block_bytes;
  std::optional<core::DType> dense;  // plain numbers of that type
  const BlockForm* form;             // null: plain numbers, or a type that is not supported
};

/// All types whose block size is known, supported or not.
std::span<const BlockType> block_types();

/// Null for an unknown id.
const BlockType* find_block_type(std::uint32_t id);

/// Decodes `count` blocks that follow one another. The type must have a form.
void dequantize_blocks(const BlockType& type, const std::uint8_t* blocks, std::int64_t count,
                       float* values);

}  // namespace nibble::gguf_blocks
