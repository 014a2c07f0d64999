#pragma once

#include <cstdint>
#include <cstring>

#include "core/float16.h"
#include "gguf_blocks/block_types.h"

/// The GGUF block types, one form each. Layouts stand beside the definitions; they are those of
/// ggml (github.com/ggml-org/ggml), little-endian.
namespace nibble::gguf_blocks {

inline constexpr int kBlock = 32;        // elements of the small blocks
inline constexpr int kSuperBlock = 256;  // elements of the "K" and IQ4_XS blocks

extern const BlockForm kQ4_0;
extern const BlockForm kQ4_1;
extern const BlockForm kQ5_0;
extern const BlockForm kQ5_1;
extern const BlockForm kQ8_0;
extern const BlockForm kQ2_K;
extern const BlockForm kQ3_K;
extern const BlockForm kQ4_K;
extern const BlockForm kQ5_K;
extern const BlockForm kQ6_K;
extern const BlockForm kIq4Nl;
extern const BlockForm kIq4Xs;
extern const BlockForm kMxfp4;

inline core::Fp16 get_f16(const std::uint8_t* bytes) {
  core::Fp16 value;
  std::memcpy(&value.bits, bytes, sizeof(value.bits));
  return value;
}

inline void put_f16(core::Fp16 value, std::uint8_t* bytes) {
  std::memcpy(bytes, &value.bits, sizeof(value.bits));
}

/// -value.
inline core::Fp16 negated(core::Fp16 value) {
  constexpr std::uint16_t kSign = 0x8000;
  return core::Fp16{static_cast<std::uint16_t>(value.bits ^ kSign)};
}

/// The 16 bytes of 32 codes of 4 bits: byte j holds element j (low nibble) and element j + 16 (high
/// nibble).
inline void get_nibbles(const std::uint8_t* bytes, std::uint8_t* codes) {
  for (int j = 0; j < kBlock / 2; ++j) {
    codes[j] = bytes[j] & 0x0f;
    codes[j + kBlock / 2] = static_cast<std::uint8_t>(bytes[j] >> 4);
  }
}

/// The low four bits of 32 codes.
inline void put_nibbles(const std::uint8_t* codes, std::uint8_t* bytes) {
  for (int j = 0; j < kBlock / 2; ++j) {
    bytes[j] = static_cast<std::uint8_t>((codes[j] & 0x0f) | codes[j + kBlock / 2] << 4);
  }
}

/// Q4_0 and IQ4_NL: f16 d | codes[16].
inline void unpack_half_and_nibbles(const std::uint8_t* block, Block& parts) {
  parts.d = get_f16(block);
  get_nibbles(block + 2, parts.codes);
}
inline void pack_half_and_nibbles(const Block& parts, std::uint8_t* block) {
  put_f16(parts.d, block);
  put_nibbles(parts.codes, block + 2);
}

}  // namespace nibble::gguf_blocks
