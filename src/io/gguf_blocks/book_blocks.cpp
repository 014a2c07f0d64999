#include <array>
#include <cstddef>
#include <limits>

#include "io/gguf_blocks/decoders.h"

// Blocks whose 4-bit codes select from a book: IQ4_NL, IQ4_XS, MXFP4. In each 16 bytes of codes,
// byte j holds element j (low nibble) and element j + 16 (high nibble).
namespace nibble::io::gguf_blocks {
namespace {

constexpr int kHalf = kBlock / 2;

using Book = std::array<float, 16>;

constexpr Book kIq4Nl = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
constexpr Book kE2m1 = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6};

void decode_codes(const std::uint8_t* codes, const Book& book, float scale, float* values) {
  for (int j = 0; j < kHalf; ++j) {
    values[j] = scale * book[codes[j] & 0x0f];
    values[j + kHalf] = scale * book[codes[j] >> 4];
  }
}

// 2^(e - 127); 255 is NaN (OCP Microscaling Formats 1.0, 5.4.1).
float e8m0_to_float(std::uint8_t e) {
  if (e == 255) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  const std::uint32_t bits = e == 0 ? 0x00400000u : static_cast<std::uint32_t>(e) << 23;
  return std::bit_cast<float>(bits);
}

}  // namespace

// f16 d | codes[16]; w = d * book[q]
void decode_iq4_nl(const std::uint8_t* block, float* values) {
  decode_codes(block + 2, kIq4Nl, read_f16(block), values);
}

// f16 d | u16 high | low[4] | codes[128]
// Group j of 32 has the 6-bit scale: nibble j % 2 of low[j / 2], above it bits 2 j and 2 j + 1 of
// high. w = d * (scale - 32) * book[q]
void decode_iq4_xs(const std::uint8_t* block, float* values) {
  const float d = read_f16(block);
  const unsigned high = read_u16(block + 2);
  for (std::ptrdiff_t j = 0; j < kSuperBlock / kBlock; ++j) {
    const int low_bits = (block[4 + j / 2] >> (j % 2 * 4)) & 0x0f;
    const int high_bits = static_cast<int>((high >> (2 * j)) & 3u);
    const float scale = d * static_cast<float>((low_bits | high_bits << 4) - 32);
    decode_codes(block + 8 + j * kHalf, kIq4Nl, scale, values + j * kBlock);
  }
}

// E8M0 e | codes[16]; w = 2^(e - 127) * book[q]
void decode_mxfp4(const std::uint8_t* block, float* values) {
  decode_codes(block + 1, kE2m1, e8m0_to_float(block[0]), values);
}

}  // namespace nibble::io::gguf_blocks
