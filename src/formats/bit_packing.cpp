#include "formats/bit_packing.h"

#include <algorithm>
#include <cassert>

namespace nibble::formats {
namespace {

// Eight codes fill exactly `kBits` bytes, so whole blocks of eight need no state between them.
constexpr std::size_t kBlock = 8;

template <int kBits>
void pack_block(const std::uint8_t* codes, std::size_t count, std::uint8_t* bytes,
                std::size_t byte_count) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < count; ++i) {
    word |= std::uint64_t{codes[i]} << (kBits * i);
  }
  for (std::size_t i = 0; i < byte_count; ++i) {
    bytes[i] = static_cast<std::uint8_t>(word >> (8 * i));
  }
}

template <int kBits>
void unpack_block(const std::uint8_t* bytes, std::size_t byte_count, std::uint8_t* codes,
                  std::size_t count) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < byte_count; ++i) {
    word |= std::uint64_t{bytes[i]} << (8 * i);
  }
  for (std::size_t i = 0; i < count; ++i) {
    codes[i] = static_cast<std::uint8_t>((word >> (kBits * i)) & ((1u << kBits) - 1));
  }
}

template <int kBits>
void pack_all(std::span<const std::uint8_t> codes, std::span<std::uint8_t> bytes) {
  const std::size_t blocks = codes.size() / kBlock;
  for (std::size_t b = 0; b < blocks; ++b) {
    pack_block<kBits>(codes.data() + b * kBlock, kBlock, bytes.data() + b * kBits, kBits);
  }
  pack_block<kBits>(codes.data() + blocks * kBlock, codes.size() % kBlock,
                    bytes.data() + blocks * kBits, bytes.size() - blocks * kBits);
}

template <int kBits>
void unpack_all(std::span<const std::uint8_t> bytes, std::span<std::uint8_t> codes) {
  const std::size_t blocks = codes.size() / kBlock;
  for (std::size_t b = 0; b < blocks; ++b) {
    unpack_block<kBits>(bytes.data() + b * kBits, kBits, codes.data() + b * kBlock, kBlock);
  }
  const std::size_t tail = codes.size() % kBlock;
  unpack_block<kBits>(bytes.data() + blocks * kBits, (tail * kBits + 7) / 8,
                      codes.data() + blocks * kBlock, tail);
}

// The common width, as a loop that compilers turn into vector instructions.
void unpack_nibbles(std::span<const std::uint8_t> bytes, std::span<std::uint8_t> codes) {
  const std::size_t pairs = codes.size() / 2;
  for (std::size_t i = 0; i < pairs; ++i) {
    codes[2 * i] = bytes[i] & 15;
    codes[2 * i + 1] = bytes[i] >> 4;
  }
  if (codes.size() % 2 != 0) {
    codes[2 * pairs] = bytes[pairs] & 15;
  }
}

[[maybe_unused]] std::size_t size_of_row(std::size_t codes, int bits) {
  return static_cast<std::size_t>(packed_bytes(static_cast<std::int64_t>(codes), bits));
}

}  // namespace

void pack(std::span<const std::uint8_t> codes, int bits, std::span<std::uint8_t> bytes) {
  assert(bytes.size() == size_of_row(codes.size(), bits));
  switch (bits) {
    case 2:
      return pack_all<2>(codes, bytes);
    case 3:
      return pack_all<3>(codes, bytes);
    case 4:
      return pack_all<4>(codes, bytes);
    case 8:
      std::copy(codes.begin(), codes.end(), bytes.begin());
      return;
    default:
      assert(false && "a code has 2, 3, 4 or 8 bits");
  }
}

void unpack(std::span<const std::uint8_t> bytes, int bits, std::span<std::uint8_t> codes) {
  assert(bytes.size() >= size_of_row(codes.size(), bits));
  switch (bits) {
    case 2:
      return unpack_all<2>(bytes, codes);
    case 3:
      return unpack_all<3>(bytes, codes);
    case 4:
      return unpack_nibbles(bytes, codes);
    case 8:
      std::copy_n(bytes.begin(), codes.size(), codes.begin());
      return;
    default:
      assert(false && "a code has 2, 3, 4 or 8 bits");
  }
}

void set_code(std::span<std::uint8_t> bytes, int bits, std::int64_t index, std::uint8_t code) {
  const std::int64_t first = index * bits;
  for (int i = 0; i < bits; ++i) {
    const auto byte = static_cast<std::size_t>((first + i) / 8);
    const int shift = static_cast<int>((first + i) % 8);
    const unsigned bit = (code >> i) & 1u;
    bytes[byte] = static_cast<std::uint8_t>((bytes[byte] & ~(1u << shift)) | (bit << shift));
  }
}

}  // namespace nibble::formats
