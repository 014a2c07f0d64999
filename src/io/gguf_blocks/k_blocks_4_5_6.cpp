#include "io/gguf_blocks/decoders.h"

// Blocks of 256: Q4_K and Q5_K in 8 groups of 32, Q6_K in 16 groups of 16.
namespace nibble::io::gguf_blocks {
namespace {

constexpr int kGroup = 32;  // Q4_K, Q5_K
constexpr int kGroups = kSuperBlock / kGroup;

struct ScaleAndMinimum {
  int scale;
  int minimum;
};

// Eight 6-bit scales and eight 6-bit minima in 12 bytes. Groups 0..3: the low six bits of bytes j
// (scale) and j + 4 (minimum). Groups 4..7: low four bits in the nibbles of byte j + 4 (low scale,
// high minimum), high two bits on top of bytes j - 4 and j.
ScaleAndMinimum scale_of(const std::uint8_t* packed, int j) {
  if (j < 4) {
    return {packed[j] & 63, packed[j + 4] & 63};
  }
  return {(packed[j + 4] & 0x0f) | (packed[j - 4] >> 6) << 4,
          (packed[j + 4] >> 4) | (packed[j] >> 6) << 4};
}

// Of every 64 elements, 32 bytes: low nibbles are the first 32 elements, high nibbles the others.
int nibble_of(const std::uint8_t* codes, int group, int l) {
  const std::uint8_t byte = codes[group / 2 * kGroup + l];
  return group % 2 == 0 ? byte & 0x0f : byte >> 4;
}

}  // namespace

// f16 d | f16 dmin | scales[12] | codes[128]
// w = d * scale * q - dmin * minimum
void decode_q4_k(const std::uint8_t* block, float* values) {
  const float d = read_f16(block);
  const float dmin = read_f16(block + 2);
  const std::uint8_t* codes = block + 16;
  for (int j = 0; j < kGroups; ++j) {
    const auto [scale, minimum] = scale_of(block + 4, j);
    const float step = d * static_cast<float>(scale);
    const float shift = dmin * static_cast<float>(minimum);
    for (int l = 0; l < kGroup; ++l) {
      values[j * kGroup + l] = step * static_cast<float>(nibble_of(codes, j, l)) - shift;
    }
  }
}

// f16 d | f16 dmin | scales[12] | high[32] | codes[128]
// Bit j of high[l] is the fifth bit of element l of group j. w as in Q4_K.
void decode_q5_k(const std::uint8_t* block, float* values) {
  const float d = read_f16(block);
  const float dmin = read_f16(block + 2);
  const std::uint8_t* high = block + 16;
  const std::uint8_t* codes = block + 48;
  for (int j = 0; j < kGroups; ++j) {
    const auto [scale, minimum] = scale_of(block + 4, j);
    const float step = d * static_cast<float>(scale);
    const float shift = dmin * static_cast<float>(minimum);
    for (int l = 0; l < kGroup; ++l) {
      const int q = nibble_of(codes, j, l) | ((high[l] >> j) & 1) << 4;
      values[j * kGroup + l] = step * static_cast<float>(q) - shift;
    }
  }
}

// low[128] | high[64] | i8 scales[16] | f16 d
//
//   element e = 128 h + 32 g + l      h in 0..1, g in 0..3, l in 0..31
//   low four bits: byte 64 h + 32 (g % 2) + l of low, high nibble when g >= 2
//   high two bits: byte 32 h + l of high, from bit 2 g on
//
// w = d * scale[e / 16] * (q - 32)
void decode_q6_k(const std::uint8_t* block, float* values) {
  const std::uint8_t* low = block;
  const std::uint8_t* high = block + 128;
  const std::uint8_t* scales = block + 192;
  const float d = read_f16(block + 208);
  for (int e = 0; e < kSuperBlock; ++e) {
    const int h = e / 128;
    const int g = e % 128 / 32;
    const int l = e % 32;
    const int low_bits = (low[64 * h + 32 * (g % 2) + l] >> (g / 2 * 4)) & 0x0f;
    const int high_bits = (high[32 * h + l] >> (2 * g)) & 3;
    const float step = d * static_cast<float>(static_cast<std::int8_t>(scales[e / 16]));
    values[e] = step * static_cast<float>((low_bits | high_bits << 4) - 32);
  }
}

}  // namespace nibble::io::gguf_blocks
