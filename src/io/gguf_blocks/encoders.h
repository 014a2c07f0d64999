#pragma once

#include <cstdint>
#include <span>

#include "core/float16.h"

/// Writers of the GGUF blocks of 32 whose codes and scales are given; the layouts are those of
/// decoders.h.
namespace nibble::io::gguf_blocks {

/// w = d * (code - 8), codes of 4 bits; 18 bytes.
void encode_q4_0(core::Fp16 d, std::span<const std::uint8_t> codes, std::uint8_t* block);

/// w = d * code + m, codes of 4 bits; 20 bytes.
void encode_q4_1(core::Fp16 d, core::Fp16 m, std::span<const std::uint8_t> codes,
                 std::uint8_t* block);

/// w = d * (code - 128), codes of 8 bits; 34 bytes.
void encode_q8_0(core::Fp16 d, std::span<const std::uint8_t> codes, std::uint8_t* block);

}  // namespace nibble::io::gguf_blocks
