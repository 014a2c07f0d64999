#include "ops/cpu/packed/code_lines.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ops/cpu/packed/tile_layout.h"

namespace nibble::ops::cpu {
namespace {

static_assert(std::endian::native == std::endian::little, "words below are bytes in this order");

constexpr std::int64_t kWordBytes = 4;    // what a line holds of a row: a quad, or several
constexpr std::int64_t kBlockLines = 64;  // at a time, so that 16 rows stay in the L1 cache

template <typename Word = std::uint32_t>
Word load(const std::uint8_t* bytes) {
  Word word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

void store(std::uint8_t* lines, std::int64_t line, std::int64_t row, std::uint32_t word) {
  std::memcpy(lines + line * kLineBytes + row * kWordBytes, &word, sizeof(word));
}

// Four nibbles in 16 bits become four bytes.
constexpr std::uint32_t spread_nibbles(std::uint32_t nibbles) {
  const std::uint32_t pairs = (nibbles | nibbles << 8) & 0x00ff00ffu;
  return (pairs | pairs << 4) & 0x0f0f0f0fu;
}
static_assert(spread_nibbles(0x4321) == 0x04030201);

// Four codes of 3 bits, in the lowest 12, become four bytes.
constexpr std::uint32_t spread_triples(std::uint32_t codes) {
  const std::uint32_t pairs = (codes | codes << 10) & 0x003f003fu;
  return (pairs | pairs << 5) & 0x07070707u;
}
static_assert(spread_triples(04321) == 0x04030201);

// Bytes are quads, pairs of bits their inputs, and the other way round.
constexpr std::uint32_t transpose_pairs(std::uint32_t word) {
  const std::uint32_t near = (word ^ word >> 6) & 0x00cc00ccu;
  word ^= near | near << 6;
  const std::uint32_t far = (word ^ word >> 12) & 0x0000f0f0u;
  return word ^ (far | far << 12);
}
static_assert(transpose_pairs(0x000000e4) == 0x03020100);  // inputs 0, 1, 2, 3 of quad 0
static_assert(transpose_pairs(0xe4000000) == 0xc0804000);  // of quad 3

// The lines of a unit of 3-bit codes, from its quads with a byte for each code.
void put_triples(const std::uint32_t (&quads)[8], std::uint32_t (&words)[3]) {
  constexpr std::uint32_t kLow = 0x03030303u;
  constexpr std::uint32_t kHigh = 0x04040404u;
  words[0] = quads[0] | quads[1] << 3 | (quads[6] & kLow) << 6;
  words[1] = quads[2] | quads[3] << 3 | (quads[7] & kLow) << 6;
  words[2] = quads[4] | quads[5] << 3 | (quads[6] & kHigh) << 4 | (quads[7] & kHigh) << 5;
}

// A step makes kLines words of a row, one for each line, out of kBytes bytes of it, which hold
// kCodes codes of kBits bits.

struct StoredPairs {
  static constexpr int kBits = 2, kCodes = 16, kBytes = 4, kLines = 1;
  static void run(const std::uint8_t* codes, std::uint32_t (&words)[kLines]) {
    words[0] = transpose_pairs(load(codes));
  }
};

struct StoredTriples {
  static constexpr int kBits = 3, kCodes = 32, kBytes = 12, kLines = 3;
  static void run(const std::uint8_t* codes, std::uint32_t (&words)[kLines]) {
    const auto first = load<std::uint64_t>(codes);
    const std::uint64_t last = load(codes + 8);
    const std::uint64_t second = first >> 48 | last << 16;
    std::uint32_t quads[8];
    for (int i = 0; i < 4; ++i) {
      quads[i] = spread_triples(first >> 12 * i & 0xfff);
      quads[4 + i] = spread_triples(second >> 12 * i & 0xfff);
    }
    put_triples(quads, words);
  }
};

struct StoredNibbles {
  static constexpr int kBits = 4, kCodes = 8, kBytes = 4, kLines = 1;
  static void run(const std::uint8_t* codes, std::uint32_t (&words)[kLines]) {
    const std::uint32_t stored = load(codes);
    words[0] = spread_nibbles(stored & 0xffffu) | spread_nibbles(stored >> 16) << 4;
  }
};

struct Bytes {
  static constexpr int kBits = 8, kCodes = 4, kBytes = 4, kLines = 1;
  static void run(const std::uint8_t* codes, std::uint32_t (&words)[kLines]) {
    words[0] = load(codes);
  }
};

struct PairsOfBytes {
  static constexpr int kBits = 8, kCodes = 16, kBytes = 16, kLines = 1;
  static void run(const std::uint8_t* codes, std::uint32_t (&words)[kLines]) {
    words[0] = load(codes) | load(codes + 4) << 2 | load(codes + 8) << 4 | load(codes + 12) << 6;
  }
};

struct TriplesOfBytes {
  static constexpr int kBits = 8, kCodes = 32, kBytes = 32, kLines = 3;
  static void run(const std::uint8_t* codes, std::uint32_t (&words)[kLines]) {
    std::uint32_t quads[8];
    for (int i = 0; i < 8; ++i) {
      quads[i] = load(codes + i * kQuad);
    }
    put_triples(quads, words);
  }
};

struct NibblesOfBytes {
  static constexpr int kBits = 8, kCodes = 8, kBytes = 8, kLines = 1;
  static void run(const std::uint8_t* codes, std::uint32_t (&words)[kLines]) {
    words[0] = load(codes) | load(codes + kQuad) << 4;
  }
};

template <class Step>
void put_step(const std::uint8_t* codes, std::int64_t step, std::int64_t row, std::uint8_t* lines) {
  std::uint32_t words[Step::kLines];
  Step::run(codes, words);
  for (int i = 0; i < Step::kLines; ++i) {
    store(lines, step * Step::kLines + i, row, words[i]);
  }
}

template <class Step>
void put_lines(const std::uint8_t* codes, std::int64_t row_bytes, std::int64_t rows,
               std::int64_t inputs, std::uint8_t* lines) {
  constexpr std::int64_t kBlock = kBlockLines / Step::kLines;
  const std::int64_t steps = inputs / Step::kCodes;
  for (std::int64_t begin = 0; begin < steps; begin += kBlock) {
    const std::int64_t end = std::min(steps, begin + kBlock);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t step = begin; step < end; ++step) {
        put_step<Step>(codes + row * row_bytes + step * Step::kBytes, step, row, lines);
      }
    }
  }
  const std::int64_t rest = (inputs % Step::kCodes * Step::kBits + 7) / 8;  // bytes
  for (std::int64_t row = 0; rest != 0 && row < rows; ++row) {
    std::uint8_t padded[Step::kBytes] = {};
    std::copy_n(codes + row * row_bytes + steps * Step::kBytes, rest, padded);
    put_step<Step>(padded, steps, row, lines);
  }
}

}  // namespace

void stored_to_lines(int bits, const std::uint8_t* codes, std::int64_t row_bytes, std::int64_t rows,
                     std::int64_t inputs, std::uint8_t* lines) {
  switch (bits) {
    case 2:
      return put_lines<StoredPairs>(codes, row_bytes, rows, inputs, lines);
    case 3:
      return put_lines<StoredTriples>(codes, row_bytes, rows, inputs, lines);
    case 4:
      return put_lines<StoredNibbles>(codes, row_bytes, rows, inputs, lines);
    default:
      return put_lines<Bytes>(codes, row_bytes, rows, inputs, lines);
  }
}

void bytes_to_lines(int bits, const std::uint8_t* codes, std::int64_t row_bytes, std::int64_t rows,
                    std::int64_t inputs, std::uint8_t* lines) {
  switch (bits) {
    case 2:
      return put_lines<PairsOfBytes>(codes, row_bytes, rows, inputs, lines);
    case 3:
      return put_lines<TriplesOfBytes>(codes, row_bytes, rows, inputs, lines);
    case 4:
      return put_lines<NibblesOfBytes>(codes, row_bytes, rows, inputs, lines);
    default:
      return put_lines<Bytes>(codes, row_bytes, rows, inputs, lines);
  }
}

}  // namespace nibble::ops::cpu
