#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/float16.h"
#include "formats/format.h"
#include "formats/scheme.h"

namespace nibble::formats {

/// What one of GGUF's types with blocks of kSuperGroup inputs holds (ggml-common.h of
/// github.com/ggml-org/ggml). Its groups have scales, and minima where the scheme has those, that
/// are small multiples of two float16 numbers of the block:
///
///   w = scale_multiple * d * (code - zero)              zero is the middle of the codes
///   w = scale_multiple * d * code + minimum_multiple * m
///   w = scale_multiple * d * book[code]
///
/// The multiples are stored as signed bytes here and in fewer bits in a file, and so are the codes
/// of 5 and 6 bits.
struct SuperBlockType {
  std::string_view name;    // "q4_k", as recipes call it
  std::string_view scheme;  // "int4-min-g32-s8"
  std::int64_t bytes = 0;   // of a block in a file
  int code_bits = 0;
  int least_multiple = 0;  // of scales; a type without a sign has positive ones alone
  int most_multiple = 0;   // and of minima
  std::span<const float> book = {};
};

/// In the order of their bits per weight.
std::span<const SuperBlockType> super_block_types();

/// The type that holds weights of a scheme; activations don't matter. Null: none does.
const SuperBlockType* super_block_type(const Scheme& scheme);

/// Bytes of a weight in the blocks of a type; k is a multiple of kSuperGroup.
inline std::int64_t block_bytes(const SuperBlockType& type, std::int64_t n, std::int64_t k) {
  return n * (k / kSuperGroup) * type.bytes;
}

/// Null for a name that is none of them.
const SuperBlockType* find_super_block_type(std::string_view name);

/// What holds weights in place of a type where rows are no multiple of kSuperGroup: symmetric
/// integers of 4 (for up to 4 bits) or 8 bits in groups of 32, GGUF's Q4_0 and Q8_0. Activations
/// stay what they are.
Scheme small_block_scheme(const Scheme& scheme);

/// The two numbers of a block whose multiples its groups have.
struct Super {
  core::Fp16 scale;
  core::Fp16 minimum;  // 0 where the scheme has no minima

  friend bool operator==(const Super& a, const Super& b) {
    return a.scale.bits == b.scale.bits && a.minimum.bits == b.minimum.bits;
  }
};

/// Rounds the scales and minima of the groups of one row to what blocks can hold, and says the
/// blocks' numbers: the largest scale (and the lowest minimum) of a block becomes the last
/// multiple. A scale never becomes 0. `scheme` must have supers and a type; minima are at most 0.
std::vector<Super> round_to_supers(const Scheme& scheme, std::span<GroupParameters> groups);

}  // namespace nibble::formats
