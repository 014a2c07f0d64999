#include <cstring>

#include <immintrin.h>

#include "ops/cpu/vector/vector_kernels.h"

// avx512.cpp with look-ups of bytes.
namespace nibble::ops::cpu {
namespace avx512vbmi {

constexpr VectorShape kShape = {
    .isa = "avx512vbmi", .width = 16, .mixed = 4, .dot_columns = 6, .score_rows = 4};

// The upper 16 bits of the float32 of each magnitude of E4M3, the others are 0.
struct EighthsTable {
  alignas(64) std::uint8_t low[128] = {};
  alignas(64) std::uint8_t high[128] = {};

  constexpr EighthsTable() {
    for (int code = 0; code < 128; ++code) {
      const int bits = upper_half(code);
      low[code] = static_cast<std::uint8_t>(bits);
      high[code] = static_cast<std::uint8_t>(bits >> 8);
    }
  }

 private:
  static constexpr int upper_half(int code) {
    constexpr int kNan = 0x7fc0;
    int exponent = code >> 3;
    int mantissa = code & 7;
    if (code == 127) {
      return kNan;
    }
    if (exponent > 0) {
      return (exponent - 7 + 127) << 7 | mantissa << 4;
    }
    if (mantissa == 0) {
      return 0;
    }
    for (exponent = 1; mantissa < 8; --exponent) {
      mantissa *= 2;
    }
    return (exponent - 7 + 127) << 7 | (mantissa - 8) << 4;
  }
};
constexpr EighthsTable kEighths;

// Bytes 2 and 3 of a lane are looked up by the code, whose sign goes on top.
inline __m512 widen_eighths(__m128i codes) {
  const __m512i places =
      _mm512_setr_epi32(0x00000000, 0x01010101, 0x02020202, 0x03030303, 0x04040404, 0x05050505,
                        0x06060606, 0x07070707, 0x08080808, 0x09090909, 0x0a0a0a0a, 0x0b0b0b0b,
                        0x0c0c0c0c, 0x0d0d0d0d, 0x0e0e0e0e, 0x0f0f0f0f);
  const __m512i code = _mm512_permutexvar_epi8(places, _mm512_castsi128_si512(codes));
  const __m512i low =
      _mm512_maskz_permutex2var_epi8(0x4444444444444444, _mm512_load_si512(kEighths.low), code,
                                     _mm512_load_si512(kEighths.low + 64));
  const __m512i high =
      _mm512_maskz_permutex2var_epi8(0x8888888888888888, _mm512_load_si512(kEighths.high), code,
                                     _mm512_load_si512(kEighths.high + 64));
  constexpr int kOrAnd = 0xf8;  // a | b & c
  return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
      _mm512_or_si512(low, high), code, _mm512_set1_epi32(static_cast<int>(0x80000000u)), kOrAnd));
}

#include "ops/cpu/vector/avx512.inc"

}  // namespace avx512vbmi

const VectorKernels& vector_kernels_avx512vbmi() {
  return avx512vbmi::kKernels;
}

}  // namespace nibble::ops::cpu
