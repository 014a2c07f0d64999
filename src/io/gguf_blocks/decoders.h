#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/float16.h"

/// Decoders of the GGUF block types, one per type. Layouts stand beside the definitions; they are
/// those of ggml (github.com/ggml-org/ggml), little-endian.
namespace nibble::io::gguf_blocks {

inline constexpr int kBlock = 32;        // elements of the small blocks
inline constexpr int kSuperBlock = 256;  // elements of the "K" and IQ4_XS blocks

void decode_q4_0(const std::uint8_t* block, float* values);
void decode_q4_1(const std::uint8_t* block, float* values);
void decode_q5_0(const std::uint8_t* block, float* values);
void decode_q5_1(const std::uint8_t* block, float* values);
void decode_q8_0(const std::uint8_t* block, float* values);
void decode_q2_k(const std::uint8_t* block, float* values);
void decode_q3_k(const std::uint8_t* block, float* values);
void decode_q4_k(const std::uint8_t* block, float* values);
void decode_q5_k(const std::uint8_t* block, float* values);
void decode_q6_k(const std::uint8_t* block, float* values);
void decode_iq4_nl(const std::uint8_t* block, float* values);
void decode_iq4_xs(const std::uint8_t* block, float* values);
void decode_mxfp4(const std::uint8_t* block, float* values);

inline std::uint16_t read_u16(const std::uint8_t* bytes) {
  std::uint16_t value = 0;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

inline std::uint32_t read_u32(const std::uint8_t* bytes) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

inline float read_f16(const std::uint8_t* bytes) {
  return core::to_float(core::Fp16{read_u16(bytes)});
}

}  // namespace nibble::io::gguf_blocks
