#include "io/gguf_blocks/decoders.h"

// Blocks of 256 in 16 groups of 16: Q2_K and Q3_K. Their 2-bit codes lie alike:
//
//   element e = 128 h + 32 j + l      h in 0..1, j in 0..3, l in 0..31
//   byte 32 h + l of the codes, bits 2 j and 2 j + 1
namespace nibble::io::gguf_blocks {
namespace {

constexpr int kGroup = 16;

int two_bits_of(const std::uint8_t* codes, int e) {
  const int shift = e % 128 / 32 * 2;
  return (codes[e / 128 * 32 + e % 32] >> shift) & 3;
}

// Sixteen 6-bit scales in 12 bytes: low four bits of scale s in nibble s / 8 of byte s % 8, high
// two bits in byte 8 + s % 4, from bit 2 (s / 4) on.
int q3_scale(const std::uint8_t* scales, int s) {
  const int low = (scales[s % 8] >> (s / 8 * 4)) & 0x0f;
  const int high = (scales[8 + s % 4] >> (s / 4 * 2)) & 3;
  return (low | high << 4) - 32;
}

}  // namespace

// u8 scales[16] (low nibble scale, high nibble minimum) | codes[64] | f16 d | f16 dmin
// w = d * scale * q - dmin * minimum
void decode_q2_k(const std::uint8_t* block, float* values) {
  const std::uint8_t* codes = block + 16;
  const float d = read_f16(block + 80);
  const float dmin = read_f16(block + 82);
  for (int e = 0; e < kSuperBlock; ++e) {
    const std::uint8_t packed = block[e / kGroup];
    const float scale = d * static_cast<float>(packed & 0x0f);
    const float minimum = dmin * static_cast<float>(packed >> 4);
    values[e] = scale * static_cast<float>(two_bits_of(codes, e)) - minimum;
  }
}

// u8 high[32] | codes[64] | scales[12] | f16 d
// Bit e / 32 of high[e % 32] is the third bit of element e, stored inverted: unset means -4.
// w = d * (scale - 32) * q
void decode_q3_k(const std::uint8_t* block, float* values) {
  const std::uint8_t* codes = block + 32;
  const std::uint8_t* scales = block + 96;
  const float d = read_f16(block + 108);
  for (int e = 0; e < kSuperBlock; ++e) {
    const bool high = ((block[e % 32] >> (e / 32)) & 1) != 0;
    const int q = two_bits_of(codes, e) - (high ? 0 : 4);
    const float scale = d * static_cast<float>(q3_scale(scales, e / kGroup));
    values[e] = scale * static_cast<float>(q);
  }
}

}  // namespace nibble::io::gguf_blocks
