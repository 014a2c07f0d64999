#include "ops/cpu/packed/code_lines.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ops/cpu/packed/tile_layout.h"

namespace nibble::ops::cpu {
namespace {

static_assert(std::endian::native == std::endian::little, "words below are bytes in this order");

constexpr std::int64_t kWordBytes = 4;  // what a line holds of a row
constexpr std::int64_t kBlockWords =
    64;  // of a row at a time, so that 16 rows stay in the L1 cache

std::uint32_t load(const std::uint8_t* bytes) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// The `count` < 4 bytes that are left of a row.
std::uint32_t load_rest(const std::uint8_t* bytes, std::int64_t count) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes, static_cast<std::size_t>(count));
  return word;
}

void store(std::uint8_t* lines, std::int64_t line, std::int64_t row, std::uint32_t word) {
  std::memcpy(lines + line * kLineBytes + row * kWordBytes, &word, sizeof(word));
}

// Four nibbles in 16 bits become four bytes.
constexpr std::uint32_t spread(std::uint32_t nibbles) {
  const std::uint32_t pairs = (nibbles | nibbles << 8) & 0x00ff00ffu;
  return (pairs | pairs << 4) & 0x0f0f0f0fu;
}

// Eight stored codes: the first four go to the low nibbles, the others to the high ones.
constexpr std::uint32_t two_quads(std::uint32_t stored) {
  return spread(stored & 0xffffu) | spread(stored >> 16) << 4;
}
static_assert(two_quads(0x76543210) == 0x73625140);

// word(codes of the row, j) is what line j holds of a row.
template <typename Word>
void put_words(const std::uint8_t* codes, std::int64_t row_bytes, std::int64_t rows,
               std::int64_t words, std::uint8_t* lines, Word word) {
  for (std::int64_t begin = 0; begin < words; begin += kBlockWords) {
    const std::int64_t end = std::min(words, begin + kBlockWords);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::uint8_t* source = codes + row * row_bytes;
      for (std::int64_t j = begin; j < end; ++j) {
        store(lines, j, row, word(source, j));
      }
    }
  }
}

}  // namespace

void stored_nibbles_to_lines(const std::uint8_t* codes, std::int64_t row_bytes, std::int64_t rows,
                             std::int64_t inputs, std::uint8_t* lines) {
  const std::int64_t words = inputs / (2 * kQuad);
  put_words(codes, row_bytes, rows, words, lines, [](const std::uint8_t* source, std::int64_t j) {
    return two_quads(load(source + j * kWordBytes));
  });
  const std::int64_t rest = (inputs - words * 2 * kQuad + 1) / 2;  // bytes
  for (std::int64_t row = 0; rest != 0 && row < rows; ++row) {
    const std::uint8_t* source = codes + row * row_bytes + words * kWordBytes;
    store(lines, words, row, two_quads(load_rest(source, rest)));
  }
}

void nibbles_to_lines(const std::uint8_t* codes, std::int64_t row_bytes, std::int64_t rows,
                      std::int64_t inputs, std::uint8_t* lines) {
  put_words(codes, row_bytes, rows, inputs / (2 * kQuad), lines,
            [](const std::uint8_t* source, std::int64_t j) {
              const std::uint8_t* quads = source + j * 2 * kQuad;
              return load(quads) | load(quads + kQuad) << 4;
            });
}

void bytes_to_lines(const std::uint8_t* codes, std::int64_t row_bytes, std::int64_t rows,
                    std::int64_t inputs, std::uint8_t* lines) {
  const std::int64_t words = inputs / kQuad;
  put_words(codes, row_bytes, rows, words, lines, [](const std::uint8_t* source, std::int64_t j) {
    return load(source + j * kWordBytes);
  });
  const std::int64_t rest = inputs - words * kQuad;
  for (std::int64_t row = 0; rest != 0 && row < rows; ++row) {
    store(lines, words, row, load_rest(codes + row * row_bytes + words * kWordBytes, rest));
  }
}

}  // namespace nibble::ops::cpu
