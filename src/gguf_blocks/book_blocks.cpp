#include <array>
#include <cstddef>

#include "gguf_blocks/block_forms.h"
#include "gguf_blocks/iq4_book.h"

// Blocks whose 4-bit codes select from a book: IQ4_NL, IQ4_XS, MXFP4.
namespace nibble::gguf_blocks {
namespace {

using Book = std::array<float, 16>;

// E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, with a 0 that has no sign.
constexpr Book kE2m1 = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6};

constexpr int kXsOffset = 32;  // of the 6-bit scales of IQ4_XS
constexpr int kXsGroups = kSuperBlock / kBlock;

// f16 d | u16 high | low[4] | codes[128]
// Group j of 32 has the 6-bit scale: nibble j % 2 of low[j / 2], above it bits 2 j and 2 j + 1 of
// high; it is 32 more than it is.
void unpack_iq4_xs(const std::uint8_t* block, Block& parts) {
  parts.d = get_f16(block);
  for (int j = 0; j < kXsGroups; ++j) {
    const int low = (block[4 + j / 2] >> (j % 2 * 4)) & 0x0f;
    const int high = (block[2 + j / 4] >> (j % 4 * 2)) & 3;
    parts.scales[j] = static_cast<std::int8_t>((low | high << 4) - kXsOffset);
    get_nibbles(block + 8 + std::ptrdiff_t{j} * (kBlock / 2),
                parts.codes + std::ptrdiff_t{j} * kBlock);
  }
}
void pack_iq4_xs(const Block& parts, std::uint8_t* block) {
  put_f16(parts.d, block);
  std::memset(block + 2, 0, 6);
  for (int j = 0; j < kXsGroups; ++j) {
    const int scale = parts.scales[j] + kXsOffset;
    std::uint8_t& low = block[4 + j / 2];
    std::uint8_t& high = block[2 + j / 4];
    low = static_cast<std::uint8_t>(low | (scale & 0x0f) << (j % 2 * 4));
    high = static_cast<std::uint8_t>(high | (scale >> 4) << (j % 4 * 2));
    put_nibbles(parts.codes + std::ptrdiff_t{j} * kBlock,
                block + 8 + std::ptrdiff_t{j} * (kBlock / 2));
  }
}

// E8M0 e | codes[16]
void unpack_mxfp4(const std::uint8_t* block, Block& parts) {
  parts.exponent = block[0];
  get_nibbles(block + 1, parts.codes);
}
void pack_mxfp4(const Block& parts, std::uint8_t* block) {
  block[0] = parts.exponent;
  put_nibbles(parts.codes, block + 1);
}

}  // namespace

constinit const BlockForm kIq4Nl = {kBlock,   4, 0, BlockScale::kHalf,       false,
                                    kIq4Book, 0, 0, unpack_half_and_nibbles, pack_half_and_nibbles};
constinit const BlockForm kIq4Xs = {kBlock,        4,          0,          BlockScale::kMultiples,
                                    false,         kIq4Book,   -kXsOffset, kXsOffset - 1,
                                    unpack_iq4_xs, pack_iq4_xs};
constinit const BlockForm kMxfp4 = {kBlock, 4, 0, BlockScale::kExponent, false,
                                    kE2m1,  0, 0, unpack_mxfp4,          pack_mxfp4};

}  // namespace nibble::gguf_blocks
