#include <cstddef>

#include <immintrin.h>

#include "formats/trellis/trellis_book.h"
#include "ops/cpu/trellis/trellis_lines.h"

// 64 weights at a time. Eight of them begin at a byte and reach over less than eight, so a
// permutation of bytes gives each eight a word of 64 bits; vpmultishiftqb takes any 8 bits out of
// such words, two of them the 16 bits of a state:
//
//   word j of line l   bytes (8 l + j) bits .. + 8 of the run, which is a circle
//   even               states of weights 0, 2, 4, 6 of each eight: 16 bits each
//   odd                states of weights 1, 3, 5, 7
//   hashes             upper bytes of the products, even and odd ones side by side: 64 bytes
//   values             two look-ups in 128 bytes each, of which the top bit of a hash takes one
namespace nibble::ops::cpu {
namespace {

constexpr int kLines = 4;  // of a run
constexpr int kLineBytes = 64;
constexpr int kRunInputs = 16;
constexpr int kMultiplier = 47485;
constexpr int kZero = 128;

#define NIBBLE_INLINE inline __attribute__((always_inline))

/// Which bytes of a run, or of its first and last 64, become the words of its lines.
template <int kBits>
struct LineBytes {
  alignas(64) std::uint8_t from[kLines][kLineBytes];

  constexpr LineBytes() : from() {
    constexpr int kBytes = 32 * kBits;
    for (int line = 0; line < kLines; ++line) {
      for (int byte = 0; byte < kLineBytes; ++byte) {
        const int at = ((8 * line + byte / 8) * kBits + byte % 8) % kBytes;
        // Of 96 bytes, the upper 64 of the look-up are the last 64.
        const bool upper = kBytes == 96 && at >= kLineBytes;
        from[line][byte] = static_cast<std::uint8_t>(upper ? at + 32 : at);
      }
    }
  }
};
template <int kBits>
constexpr LineBytes<kBits> kLineFrom;

/// Of each word the states of weights kFirst, kFirst + 2, + 4 and + 6: where their lower and upper
/// bytes begin.
template <int kBits, int kFirst>
constexpr std::uint64_t shifts() {
  std::uint64_t word = 0;
  for (int i = 0; i < 4; ++i) {
    const int bit = (kFirst + 2 * i) * kBits;
    word |= static_cast<std::uint64_t>(bit) << (16 * i);
    word |= static_cast<std::uint64_t>(bit + 8) << (16 * i + 8);
  }
  return word;
}

/// The values and 128.
struct UnsignedBook {
  alignas(64) std::uint8_t values[256];

  constexpr UnsignedBook() : values() {
    for (int i = 0; i < 256; ++i) {
      values[i] =
          static_cast<std::uint8_t>(formats::kTrellisBook[static_cast<std::size_t>(i)] + kZero);
    }
  }
};
constexpr UnsignedBook kBook;

template <int kBits>
class Decoder {
 public:
  static constexpr int kRunBytes = 32 * kBits;

  Decoder() {
    for (int i = 0; i < 4; ++i) {
      book_[i] = _mm512_load_si512(kBook.values + std::ptrdiff_t{i} * kLineBytes);
      from_[i] = _mm512_load_si512(kLineFrom<kBits>.from[i]);
    }
  }

  NIBBLE_INLINE void decode(const std::uint8_t* run, __m512i (&lines)[kLines]) const {
    const __m512i first = _mm512_loadu_si512(run);
    const __m512i last = _mm512_loadu_si512(run + kRunBytes - kLineBytes);
#pragma GCC unroll 4
    for (int line = 0; line < kLines; ++line) {
      const __m512i words = kBits == 2 ? _mm512_permutexvar_epi8(from_[line], first)
                                       : _mm512_permutex2var_epi8(first, from_[line], last);
      const __m512i even =
          _mm512_mullo_epi16(_mm512_multishift_epi64_epi8(even_shifts_, words), multiplier_);
      const __m512i odd =
          _mm512_mullo_epi16(_mm512_multishift_epi64_epi8(odd_shifts_, words), multiplier_);
      constexpr __mmask64 kOdd = 0xaaaaaaaaaaaaaaaaull;
      const __m512i hashes = _mm512_mask_mov_epi8(_mm512_srli_epi16(even, 8), kOdd, odd);
      const __m512i low = _mm512_permutex2var_epi8(book_[0], hashes, book_[1]);
      const __m512i high = _mm512_permutex2var_epi8(book_[2], hashes, book_[3]);
      lines[line] = _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(hashes), high);
    }
  }

 private:
  __m512i book_[4] = {};
  __m512i from_[kLines] = {};
  __m512i multiplier_ = _mm512_set1_epi16(static_cast<short>(kMultiplier));
  __m512i even_shifts_ = _mm512_set1_epi64(static_cast<long long>(shifts<kBits, 0>()));
  __m512i odd_shifts_ = _mm512_set1_epi64(static_cast<long long>(shifts<kBits, 1>()));
};

NIBBLE_INLINE void add_product(__m512i& sum, __m512i weights, const std::int8_t* quad) {
  using Quad = std::int8_t[4];
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(sum)
      : "v"(weights), "m"(*reinterpret_cast<const Quad*>(quad)));
}

template <int kBits, int kTokens>
void multiply_tokens(const std::uint8_t* codes, const TrellisInput& x, const float* row_scales,
                     float* y, std::int64_t ldy) {
  const Decoder<kBits> decoder;
  __m512 total[kTokens];
  for (int i = 0; i < kTokens; ++i) {
    total[i] = _mm512_setzero_ps();
  }
  for (std::int64_t g = 0; g < x.groups; ++g) {
    __m512i sums[kTokens];
#pragma GCC unroll 8
    for (int i = 0; i < kTokens; ++i) {
      sums[i] = _mm512_set1_epi32(-kZero * x.sums[i * x.groups + g]);
    }
    const std::int64_t left = x.k - g * x.group;
    const std::int64_t runs = (left < x.group ? left : x.group) / kRunInputs;
    const std::int8_t* a = x.codes + g * x.stride;
    for (std::int64_t run = 0; run < runs;
         ++run, a += kRunInputs, codes += Decoder<kBits>::kRunBytes) {
      __m512i lines[kLines];
      decoder.decode(codes, lines);
#pragma GCC unroll 4
      for (int line = 0; line < kLines; ++line) {
#pragma GCC unroll 8
        for (int i = 0; i < kTokens; ++i) {
          add_product(sums[i], lines[line], a + i * x.row_stride + std::ptrdiff_t{4} * line);
        }
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kTokens; ++i) {
      total[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[i]),
                                 _mm512_set1_ps(x.scales[i * x.groups + g]), total[i]);
    }
  }
  const __m512 scales = _mm512_loadu_ps(row_scales);
  for (int i = 0; i < kTokens; ++i) {
    _mm512_storeu_ps(y + i * ldy, _mm512_mul_ps(total[i], scales));
  }
}

template <int kBits, int kTokens>
void multiply_few(const std::uint8_t* codes, const TrellisInput& x, std::int64_t m,
                  const float* row_scales, float* y, std::int64_t ldy) {
  if constexpr (kTokens > 1) {
    if (m < kTokens) {
      return multiply_few<kBits, kTokens - 1>(codes, x, m, row_scales, y, ldy);
    }
  }
  multiply_tokens<kBits, kTokens>(codes, x, row_scales, y, ldy);
}

template <int kBits>
void expand(const std::uint8_t* codes, std::int64_t runs, std::uint8_t* out) {
  const Decoder<kBits> decoder;
  for (std::int64_t run = 0; run < runs; ++run, codes += Decoder<kBits>::kRunBytes) {
    __m512i lines[kLines];
    decoder.decode(codes, lines);
    for (int line = 0; line < kLines; ++line, out += kLineBytes) {
      _mm512_storeu_si512(out, lines[line]);
    }
  }
}

}  // namespace

void multiply_tile_avx512vbmi(const std::uint8_t* codes, int bits, const TrellisInput& x,
                              std::int64_t m, const float* row_scales, float* y, std::int64_t ldy) {
  constexpr int kMost = 8;
  switch (bits) {
    case 2:
      return multiply_few<2, kMost>(codes, x, m, row_scales, y, ldy);
    case 3:
      return multiply_few<3, kMost>(codes, x, m, row_scales, y, ldy);
    default:
      return multiply_few<4, kMost>(codes, x, m, row_scales, y, ldy);
  }
}

void expand_runs_avx512vbmi(const std::uint8_t* codes, int bits, std::int64_t runs,
                            std::uint8_t* lines) {
  switch (bits) {
    case 2:
      return expand<2>(codes, runs, lines);
    case 3:
      return expand<3>(codes, runs, lines);
    default:
      return expand<4>(codes, runs, lines);
  }
}

}  // namespace nibble::ops::cpu
