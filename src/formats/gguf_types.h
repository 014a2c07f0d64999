#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "formats/scheme.h"
#include "gguf_blocks/block_types.h"

namespace nibble::formats {

/// One of GGUF's block types and the scheme whose codes and scales are those of its blocks.
struct RoundedType {
  std::string word;  // "q4_k", as recipes call it
  Scheme scheme;     // int4-min-g32-s8
  const gguf_blocks::BlockType* blocks = nullptr;
};

/// All of them, in the order of their bits per weight.
std::span<const RoundedType> rounded_types();

/// The scheme of a type; nullopt for types that are not supported and for plain numbers.
std::optional<Scheme> scheme_of_blocks(const gguf_blocks::BlockType& type);

/// The type whose blocks hold weights of a scheme; activations don't matter. Null: none does.
const gguf_blocks::BlockType* block_type_of(const Scheme& scheme);

/// By the word of recipes; null for others.
const gguf_blocks::BlockType* find_block_type(std::string_view word);

/// Bytes of weights in the blocks of a type, which divide k.
inline std::int64_t block_bytes(const gguf_blocks::BlockType& type, std::int64_t n,
                                std::int64_t k) {
  return n * (k / type.block_elements) * type.block_bytes;
}

/// Whether a scheme is that of a type and of nothing else: codes of 5 and 6 bits, IQ4's book, and
/// scales that are multiples.
bool is_of_gguf_alone(const Scheme& scheme);

/// What holds weights in place of a scheme with supers where rows are no multiple of kSuperGroup:
/// IQ4_NL for codes of up to 4 bits, else Q8_0. Activations stay what they are.
Scheme small_block_scheme(const Scheme& scheme);

}  // namespace nibble::formats
