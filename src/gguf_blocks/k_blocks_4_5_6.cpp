#include <cstddef>

#include "gguf_blocks/block_forms.h"

// Blocks of 256: Q4_K and Q5_K in 8 groups of 32, Q6_K in 16 groups of 16.
namespace nibble::gguf_blocks {
namespace {

constexpr int kGroup = 32;  // Q4_K, Q5_K
constexpr int kGroups = kSuperBlock / kGroup;

// Eight 6-bit scales and eight 6-bit minima in 12 bytes. Groups 0..3: the low six bits of bytes j
// (scale) and j + 4 (minimum). Groups 4..7: low four bits in the nibbles of byte j + 4 (low scale,
// high minimum), high two bits on top of bytes j - 4 and j.
void get_scales(const std::uint8_t* packed, Block& parts) {
  for (int j = 0; j < 4; ++j) {
    parts.scales[j] = static_cast<std::int8_t>(packed[j] & 63);
    parts.minima[j] = static_cast<std::int8_t>(packed[j + 4] & 63);
  }
  for (int j = 4; j < kGroups; ++j) {
    parts.scales[j] = static_cast<std::int8_t>((packed[j + 4] & 0x0f) | (packed[j - 4] >> 6) << 4);
    parts.minima[j] = static_cast<std::int8_t>((packed[j + 4] >> 4) | (packed[j] >> 6) << 4);
  }
}

void put_scales(const Block& parts, std::uint8_t* packed) {
  for (int j = 0; j < 4; ++j) {
    packed[j] = static_cast<std::uint8_t>(parts.scales[j] | (parts.scales[j + 4] >> 4) << 6);
    packed[j + 4] = static_cast<std::uint8_t>(parts.minima[j] | (parts.minima[j + 4] >> 4) << 6);
    packed[j + 8] =
        static_cast<std::uint8_t>((parts.scales[j + 4] & 0x0f) | (parts.minima[j + 4] << 4));
  }
}

// Of every 64 elements, 32 bytes: low nibbles are the first 32 elements, high nibbles the others.
void get_pairs(const std::uint8_t* bytes, std::uint8_t* codes) {
  for (int j = 0; j < kGroups; j += 2, bytes += kGroup, codes += std::ptrdiff_t{2} * kGroup) {
    for (int l = 0; l < kGroup; ++l) {
      codes[l] = bytes[l] & 0x0f;
      codes[l + kGroup] = static_cast<std::uint8_t>(bytes[l] >> 4);
    }
  }
}

void put_pairs(const std::uint8_t* codes, std::uint8_t* bytes) {
  for (int j = 0; j < kGroups; j += 2, bytes += kGroup, codes += std::ptrdiff_t{2} * kGroup) {
    for (int l = 0; l < kGroup; ++l) {
      bytes[l] = static_cast<std::uint8_t>((codes[l] & 0x0f) | codes[l + kGroup] << 4);
    }
  }
}

// f16 d | f16 dmin | scales[12] | codes[128]
// w = d * scale * q - dmin * minimum
void unpack_q4_k(const std::uint8_t* block, Block& parts) {
  parts.d = get_f16(block);
  parts.m = negated(get_f16(block + 2));
  get_scales(block + 4, parts);
  get_pairs(block + 16, parts.codes);
}
void pack_q4_k(const Block& parts, std::uint8_t* block) {
  put_f16(parts.d, block);
  put_f16(negated(parts.m), block + 2);
  put_scales(parts, block + 4);
  put_pairs(parts.codes, block + 16);
}

// f16 d | f16 dmin | scales[12] | high[32] | codes[128]
// Bit j of high[l] is the fifth bit of element l of group j. w as in Q4_K.
void unpack_q5_k(const std::uint8_t* block, Block& parts) {
  const std::uint8_t* high = block + 16;
  parts.d = get_f16(block);
  parts.m = negated(get_f16(block + 2));
  get_scales(block + 4, parts);
  get_pairs(block + 48, parts.codes);
  for (int e = 0; e < kSuperBlock; ++e) {
    const int fifth = high[e % kGroup] >> (e / kGroup) & 1;
    parts.codes[e] = static_cast<std::uint8_t>(parts.codes[e] | fifth << 4);
  }
}
void pack_q5_k(const Block& parts, std::uint8_t* block) {
  std::uint8_t* const high = block + 16;
  put_f16(parts.d, block);
  put_f16(negated(parts.m), block + 2);
  put_scales(parts, block + 4);
  put_pairs(parts.codes, block + 48);
  std::memset(high, 0, kGroup);
  for (int e = 0; e < kSuperBlock; ++e) {
    std::uint8_t& byte = high[e % kGroup];
    byte = static_cast<std::uint8_t>(byte | (parts.codes[e] >> 4 & 1) << (e / kGroup));
  }
}

// Where the bits of element e = 128 h + 32 g + l of Q6_K lie: h in 0..1, g in 0..3, l in 0..31.
struct Q6Place {
  int low;         // byte
  int low_shift;   // of four bits
  int high;        // byte
  int high_shift;  // of two bits
};
constexpr Q6Place q6_place(int e) {
  const int h = e / 128;
  const int g = e % 128 / 32;
  const int l = e % 32;
  return {64 * h + 32 * (g % 2) + l, g / 2 * 4, 128 + 32 * h + l, 2 * g};
}
constexpr int kQ6Scales = 192;
constexpr int kQ6D = 208;
constexpr int kQ6Group = 16;

// low[128] | high[64] | i8 scales[16] | f16 d
// w = d * scale * (q - 32)
void unpack_q6_k(const std::uint8_t* block, Block& parts) {
  for (int e = 0; e < kSuperBlock; ++e) {
    const Q6Place at = q6_place(e);
    const int low = (block[at.low] >> at.low_shift) & 0x0f;
    const int high = (block[at.high] >> at.high_shift) & 3;
    parts.codes[e] = static_cast<std::uint8_t>(low | high << 4);
  }
  std::memcpy(parts.scales, block + kQ6Scales, kSuperBlock / kQ6Group);
  parts.d = get_f16(block + kQ6D);
}
void pack_q6_k(const Block& parts, std::uint8_t* block) {
  std::memset(block, 0, kQ6Scales);
  for (int e = 0; e < kSuperBlock; ++e) {
    const Q6Place at = q6_place(e);
    const int code = parts.codes[e];
    block[at.low] = static_cast<std::uint8_t>(block[at.low] | (code & 0x0f) << at.low_shift);
    block[at.high] = static_cast<std::uint8_t>(block[at.high] | (code >> 4) << at.high_shift);
  }
  std::memcpy(block + kQ6Scales, parts.scales, kSuperBlock / kQ6Group);
  put_f16(parts.d, block + kQ6D);
}

}  // namespace

constinit const BlockForm kQ4_K = {
    kGroup, 4, 0, BlockScale::kMultiples, true, {}, 0, 63, unpack_q4_k, pack_q4_k};
constinit const BlockForm kQ5_K = {
    kGroup, 5, 0, BlockScale::kMultiples, true, {}, 0, 63, unpack_q5_k, pack_q5_k};
constinit const BlockForm kQ6_K = {
    kQ6Group, 6, 32, BlockScale::kMultiples, false, {}, -128, 127, unpack_q6_k, pack_q6_k};

}  // namespace nibble::gguf_blocks
