#include "io/gguf_blocks/decoders.h"

// Blocks of 32 with one scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.
//
//   4-bit codes   16 bytes: byte j holds element j (low nibble) and element j + 16 (high nibble)
//   fifth bits    u32: bit i belongs to element i
namespace nibble::io::gguf_blocks {
namespace {

constexpr int kHalf = kBlock / 2;

int nibble_of(const std::uint8_t* codes, int i) {
  return i < kHalf ? codes[i] & 0x0f : codes[i - kHalf] >> 4;
}

int five_bits_of(const std::uint8_t* codes, std::uint32_t high, int i) {
  return nibble_of(codes, i) | static_cast<int>((high >> i) & 1u) << 4;
}

}  // namespace

// f16 d | codes; w = d * (q - 8)
void decode_q4_0(const std::uint8_t* block, float* values) {
  const float d = read_f16(block);
  for (int i = 0; i < kBlock; ++i) {
    values[i] = d * static_cast<float>(nibble_of(block + 2, i) - 8);
  }
}

// f16 d | f16 m | codes; w = d * q + m
void decode_q4_1(const std::uint8_t* block, float* values) {
  const float d = read_f16(block);
  const float m = read_f16(block + 2);
  for (int i = 0; i < kBlock; ++i) {
    values[i] = d * static_cast<float>(nibble_of(block + 4, i)) + m;
  }
}

// f16 d | fifth bits | codes; w = d * (q - 16)
void decode_q5_0(const std::uint8_t* block, float* values) {
  const float d = read_f16(block);
  const std::uint32_t high = read_u32(block + 2);
  for (int i = 0; i < kBlock; ++i) {
    values[i] = d * static_cast<float>(five_bits_of(block + 6, high, i) - 16);
  }
}

// f16 d | f16 m | fifth bits | codes; w = d * q + m
void decode_q5_1(const std::uint8_t* block, float* values) {
  const float d = read_f16(block);
  const float m = read_f16(block + 2);
  const std::uint32_t high = read_u32(block + 4);
  for (int i = 0; i < kBlock; ++i) {
    values[i] = d * static_cast<float>(five_bits_of(block + 8, high, i)) + m;
  }
}

// f16 d | i8 codes[32]; w = d * q
void decode_q8_0(const std::uint8_t* block, float* values) {
  const float d = read_f16(block);
  for (int i = 0; i < kBlock; ++i) {
    values[i] = d * static_cast<float>(static_cast<std::int8_t>(block[2 + i]));
  }
}

}  // namespace nibble::io::gguf_blocks
