#pragma once

#include <cstdint>
#include <type_traits>

#include <immintrin.h>

#include "ops/cpu/sparse/rows/row_streams.h"

/// What the loops over streams of rows and units of tiles share; included by the files of one
/// instruction set each, in an unnamed namespace.
namespace nibble::ops::cpu {
namespace {

#define NIBBLE_INLINE inline __attribute__((always_inline))

template <class T>
NIBBLE_INLINE T load_as(const void* p) {
  T value;
  __builtin_memcpy(&value, p, sizeof(value));
  return value;
}

NIBBLE_INLINE __m128i load_16(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
NIBBLE_INLINE __m256i load_32(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

/// A byte for each of 16 nibbles, low halves first.
NIBBLE_INLINE __m128i nibbles(const std::uint8_t* p) {
  const __m128i words = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return _mm_and_si128(_mm_or_si128(words, _mm_slli_epi16(words, 4)), _mm_set1_epi8(15));
}

/// Lane i / Times of each lane i.
template <int Times>
struct RepeatedLanes {
  alignas(64) std::int32_t lanes[kSparseWindow];

  constexpr RepeatedLanes() : lanes() {
    for (int i = 0; i < kSparseWindow; ++i) {
      lanes[i] = i / Times;
    }
  }
};
template <int Times>
inline constexpr RepeatedLanes<Times> kRepeated;

/// Of s[0 .. 8) and s[8 .. 16), as rows/row_streams.h says.
NIBBLE_INLINE float sum_of(__m256 low, __m256 high) {
  const __m256 both = _mm256_add_ps(low, high);
  const __m128 halves = _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
  const __m128 pairs = _mm_add_ps(halves, _mm_movehl_ps(halves, halves));
  return _mm_cvtss_f32(_mm_add_ss(pairs, _mm_movehdup_ps(pairs)));
}

/// Fetches what lies some windows or units behind. Activations of several tokens lie here and
/// there, and between them the processor loses sight of the stream.
template <int Bytes>
NIBBLE_INLINE void prefetch_behind(const std::uint8_t* at) {
  constexpr int kAhead = 2048;
  constexpr int kCacheLine = 64;
#pragma GCC unroll 32
  for (int byte = 0; byte < Bytes; byte += kCacheLine) {
    __builtin_prefetch(at + kAhead + byte);
  }
}

/// f(the group's size as a constant).
template <class F>
void with_group(int group, F f) {
  switch (group) {
    case 8:
      return f(std::integral_constant<int, 8>());
    case 16:
      return f(std::integral_constant<int, 16>());
    case 32:
      return f(std::integral_constant<int, 32>());
    default:
      return f(std::integral_constant<int, 64>());
  }
}

/// Run<M>() for the tokens from the first on, Isa::kTokens at a time, then half as many.
template <int M, class Run>
NIBBLE_INLINE void for_tokens(std::int64_t token, std::int64_t tokens, const Run& run) {
  for (; token + M <= tokens; token += M) {
    run.template operator()<M>(token);
  }
  if constexpr (M > 1) {
    for_tokens<M / 2>(token, tokens, run);
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
