#pragma once

#include <cstdint>

#include <immintrin.h>

#include "ops/cpu/sparse/sparse_rows.h"

/// What the loops over units of rows and of tiles share; included by the files of one instruction
/// set each, in an unnamed namespace.
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

/// Fetches what lies some units behind one of `Bytes` bytes. Activations of several tokens lie here
/// and there, and between them the processor loses sight of the stream of units.
template <int Bytes>
NIBBLE_INLINE void prefetch_behind(const std::uint8_t* unit) {
  constexpr int kAhead = 2048;
  constexpr int kCacheLine = 64;
#pragma GCC unroll 32
  for (int byte = 0; byte < Bytes; byte += kCacheLine) {
    __builtin_prefetch(unit + kAhead + byte);
  }
}

template <template <int, int, int> class Form, int HeldBits, int ScaleBytes, class F>
void with_group(int group, F f) {
  switch (group) {
    case 8:
      return f(Form<8, HeldBits, ScaleBytes>());
    case 16:
      return f(Form<16, HeldBits, ScaleBytes>());
    case 32:
      return f(Form<32, HeldBits, ScaleBytes>());
    default:
      return f(Form<64, HeldBits, ScaleBytes>());
  }
}

/// f(Form<group, HeldBits, bytes of a scale>()) of a weight whose codes are held in so many bits.
template <template <int, int, int> class Form, int HeldBits, class F>
void with_form(const SparseWeight& w, F f) {
  return w.scale_bytes == 1 ? with_group<Form, HeldBits, 1>(w.group, f)
                            : with_group<Form, HeldBits, 2>(w.group, f);
}

}  // namespace
}  // namespace nibble::ops::cpu
