#include "gguf_blocks/block_forms.h"

// Blocks of 256 in 16 groups of 16: Q2_K and Q3_K. Their 2-bit codes lie alike:
//
//   element e = 128 h + 32 j + l      h in 0..1, j in 0..3, l in 0..31
//   byte 32 h + l of the codes, bits 2 j and 2 j + 1
namespace nibble::gguf_blocks {
namespace {

constexpr int kGroup = 16;
constexpr int kGroups = kSuperBlock / kGroup;
constexpr int kQ3Offset = 32;  // of the 6-bit scales of Q3_K

void get_two_bits(const std::uint8_t* bytes, std::uint8_t* codes) {
  for (int e = 0; e < kSuperBlock; ++e) {
    codes[e] = (bytes[e / 128 * 32 + e % 32] >> (e % 128 / 32 * 2)) & 3;
  }
}

void put_two_bits(const std::uint8_t* codes, std::uint8_t* bytes) {
  std::memset(bytes, 0, kSuperBlock / 4);
  for (int e = 0; e < kSuperBlock; ++e) {
    std::uint8_t& byte = bytes[e / 128 * 32 + e % 32];
    byte = static_cast<std::uint8_t>(byte | (codes[e] & 3) << (e % 128 / 32 * 2));
  }
}

// u8 scales[16] (low nibble scale, high nibble minimum) | codes[64] | f16 d | f16 dmin
// w = d * scale * q - dmin * minimum
void unpack_q2_k(const std::uint8_t* block, Block& parts) {
  for (int g = 0; g < kGroups; ++g) {
    parts.scales[g] = static_cast<std::int8_t>(block[g] & 0x0f);
    parts.minima[g] = static_cast<std::int8_t>(block[g] >> 4);
  }
  get_two_bits(block + 16, parts.codes);
  parts.d = get_f16(block + 80);
  parts.m = negated(get_f16(block + 82));
}
void pack_q2_k(const Block& parts, std::uint8_t* block) {
  for (int g = 0; g < kGroups; ++g) {
    block[g] = static_cast<std::uint8_t>(parts.scales[g] | parts.minima[g] << 4);
  }
  put_two_bits(parts.codes, block + 16);
  put_f16(parts.d, block + 80);
  put_f16(negated(parts.m), block + 82);
}

// u8 high[32] | codes[64] | scales[12] | f16 d
// Bit e / 32 of high[e % 32] is the third bit of element e.
//
// Sixteen 6-bit scales, 32 more than they are: low four bits of scale s in nibble s / 8 of byte
// s % 8, high two bits in byte 8 + s % 4, from bit 2 (s / 4) on. w = d * scale * (q - 4)
void unpack_q3_k(const std::uint8_t* block, Block& parts) {
  const std::uint8_t* scales = block + 96;
  get_two_bits(block + 32, parts.codes);
  for (int e = 0; e < kSuperBlock; ++e) {
    const int high = block[e % 32] >> (e / 32) & 1;
    parts.codes[e] = static_cast<std::uint8_t>(parts.codes[e] | high << 2);
  }
  for (int s = 0; s < kGroups; ++s) {
    const int low = (scales[s % 8] >> (s / 8 * 4)) & 0x0f;
    const int high = (scales[8 + s % 4] >> (s / 4 * 2)) & 3;
    parts.scales[s] = static_cast<std::int8_t>((low | high << 4) - kQ3Offset);
  }
  parts.d = get_f16(block + 108);
}
void pack_q3_k(const Block& parts, std::uint8_t* block) {
  std::uint8_t* const scales = block + 96;
  put_two_bits(parts.codes, block + 32);
  std::memset(block, 0, 32);
  std::memset(scales, 0, 12);
  for (int e = 0; e < kSuperBlock; ++e) {
    block[e % 32] = static_cast<std::uint8_t>(block[e % 32] | (parts.codes[e] >> 2) << (e / 32));
  }
  for (int s = 0; s < kGroups; ++s) {
    const int scale = parts.scales[s] + kQ3Offset;
    std::uint8_t& low = scales[s % 8];
    std::uint8_t& high = scales[8 + s % 4];
    low = static_cast<std::uint8_t>(low | (scale & 0x0f) << (s / 8 * 4));
    high = static_cast<std::uint8_t>(high | (scale >> 4) << (s / 4 * 2));
  }
  put_f16(parts.d, block + 108);
}

}  // namespace

constinit const BlockForm kQ2_K = {
    kGroup, 2, 0, BlockScale::kMultiples, true, {}, 0, 15, unpack_q2_k, pack_q2_k};
constinit const BlockForm kQ3_K = {
    kGroup, 3, 4, BlockScale::kMultiples, false, {}, -32, 31, unpack_q3_k, pack_q3_k};

}  // namespace nibble::gguf_blocks
