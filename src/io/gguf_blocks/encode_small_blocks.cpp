#include <cstring>

#include "io/gguf_blocks/decoders.h"
#include "io/gguf_blocks/encoders.h"

namespace nibble::io::gguf_blocks {
namespace {

constexpr std::size_t kHalf = kBlock / 2;

std::uint8_t* put_f16(core::Fp16 value, std::uint8_t* to) {
  std::memcpy(to, &value.bits, sizeof(value.bits));
  return to + sizeof(value.bits);
}

void put_nibbles(std::span<const std::uint8_t> codes, std::uint8_t* to) {
  for (std::size_t i = 0; i < kHalf; ++i) {
    to[i] = static_cast<std::uint8_t>(codes[i] | codes[i + kHalf] << 4);
  }
}

}  // namespace

void encode_q4_0(core::Fp16 d, std::span<const std::uint8_t> codes, std::uint8_t* block) {
  put_nibbles(codes, put_f16(d, block));
}

void encode_q4_1(core::Fp16 d, core::Fp16 m, std::span<const std::uint8_t> codes,
                 std::uint8_t* block) {
  put_nibbles(codes, put_f16(m, put_f16(d, block)));
}

void encode_q8_0(core::Fp16 d, std::span<const std::uint8_t> codes, std::uint8_t* block) {
  std::uint8_t* const to = put_f16(d, block);
  for (std::size_t i = 0; i < std::size_t{kBlock}; ++i) {
    to[i] = static_cast<std::uint8_t>(codes[i] ^ 0x80);  // code - 128 as a signed byte
  }
}

}  // namespace nibble::io::gguf_blocks
