#include "gguf_blocks/block_forms.h"

// Blocks of 32 with one scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0. The fifth bits of codes are a u32: bit
// i belongs to element i.
namespace nibble::gguf_blocks {
namespace {

constexpr std::uint8_t kSignBit = 0x80;

void get_five_bits(const std::uint8_t* bytes, Block& parts) {
  std::uint32_t high = 0;
  std::memcpy(&high, bytes, sizeof(high));
  get_nibbles(bytes + sizeof(high), parts.codes);
  for (int i = 0; i < kBlock; ++i) {
    parts.codes[i] = static_cast<std::uint8_t>(parts.codes[i] | ((high >> i) & 1u) << 4);
  }
}

void put_five_bits(const Block& parts, std::uint8_t* bytes) {
  std::uint32_t high = 0;
  for (int i = 0; i < kBlock; ++i) {
    high |= (parts.codes[i] >> 4 & 1u) << i;
  }
  std::memcpy(bytes, &high, sizeof(high));
  put_nibbles(parts.codes, bytes + sizeof(high));
}

// f16 d | f16 m | codes
void unpack_q4_1(const std::uint8_t* block, Block& parts) {
  parts.d = get_f16(block);
  parts.m = get_f16(block + 2);
  get_nibbles(block + 4, parts.codes);
}
void pack_q4_1(const Block& parts, std::uint8_t* block) {
  put_f16(parts.d, block);
  put_f16(parts.m, block + 2);
  put_nibbles(parts.codes, block + 4);
}

// f16 d | fifth bits | codes
void unpack_q5_0(const std::uint8_t* block, Block& parts) {
  parts.d = get_f16(block);
  get_five_bits(block + 2, parts);
}
void pack_q5_0(const Block& parts, std::uint8_t* block) {
  put_f16(parts.d, block);
  put_five_bits(parts, block + 2);
}

// f16 d | f16 m | fifth bits | codes
void unpack_q5_1(const std::uint8_t* block, Block& parts) {
  parts.d = get_f16(block);
  parts.m = get_f16(block + 2);
  get_five_bits(block + 4, parts);
}
void pack_q5_1(const Block& parts, std::uint8_t* block) {
  put_f16(parts.d, block);
  put_f16(parts.m, block + 2);
  put_five_bits(parts, block + 4);
}

// f16 d | i8 codes[32], which are 128 less here
void unpack_q8_0(const std::uint8_t* block, Block& parts) {
  parts.d = get_f16(block);
  for (int i = 0; i < kBlock; ++i) {
    parts.codes[i] = block[2 + i] ^ kSignBit;
  }
}
void pack_q8_0(const Block& parts, std::uint8_t* block) {
  put_f16(parts.d, block);
  for (int i = 0; i < kBlock; ++i) {
    block[2 + i] = parts.codes[i] ^ kSignBit;
  }
}

constexpr BlockForm form(int bits, int zero, bool minima, decltype(BlockForm::unpack) unpack,
                         decltype(BlockForm::pack) pack) {
  return {kBlock, bits, zero, BlockScale::kHalf, minima, {}, 0, 0, unpack, pack};
}

}  // namespace

constinit const BlockForm kQ4_0 = form(4, 8, false, unpack_half_and_nibbles, pack_half_and_nibbles);
constinit const BlockForm kQ4_1 = form(4, 0, true, unpack_q4_1, pack_q4_1);
constinit const BlockForm kQ5_0 = form(5, 16, false, unpack_q5_0, pack_q5_0);
constinit const BlockForm kQ5_1 = form(5, 0, true, unpack_q5_1, pack_q5_1);
constinit const BlockForm kQ8_0 = form(8, 128, false, unpack_q8_0, pack_q8_0);

}  // namespace nibble::gguf_blocks
