#include <immintrin.h>

#include "ops/cpu/attention/codes/code_kernels.h"
#include "ops/cpu/cpu_features.h"

#define NIBBLE_INLINE inline __attribute__((always_inline))

// As avxvnni.cpp, a whole line at a time; the words of a quad are broadcast by the instruction's
// memory operand.
namespace nibble::ops::cpu {
namespace code_avx512vnni {

struct Isa {
  static constexpr const char* kName = "avx512vnni";
  static bool runs_here() { return cpu_features().avx512vnni; }
  static constexpr std::int64_t kLanes = 16;
  static constexpr bool kLifts = false;
  using Int = __m512i;
  using Float = __m512;
  using Line = __m512i;
  using Codes = Int;
  struct Sum {
    Int high;
    Int low;
  };

  static NIBBLE_INLINE Int load(const std::uint8_t* p) { return _mm512_loadu_si512(p); }
  static NIBBLE_INLINE Int low_nibbles(Int v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
  static NIBBLE_INLINE Int high_nibbles(Int v) { return low_nibbles(_mm512_srli_epi16(v, 4)); }
  static NIBBLE_INLINE Codes split(Int line) { return line; }
  static NIBBLE_INLINE Sum no_sum() { return {_mm512_setzero_si512(), _mm512_setzero_si512()}; }
  // In assembly because GCC 12 copies the accumulator of the intrinsic.
  static NIBBLE_INLINE void multiply(Sum& sum, Codes codes, const std::int32_t* words) {
    asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum.high) : "v"(codes), "m"(words[0]));
    asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum.low) : "v"(codes), "m"(words[1]));
  }
  static NIBBLE_INLINE Int total(Sum sum) { return add(_mm512_slli_epi32(sum.high, 8), sum.low); }
  static NIBBLE_INLINE Int add(Int a, Int b) { return _mm512_add_epi32(a, b); }
  static NIBBLE_INLINE Int lift(Int total, float) { return total; }
  static NIBBLE_INLINE std::int64_t sum_of_lanes(Int v) { return _mm512_reduce_add_epi32(v); }
  static NIBBLE_INLINE void put_words(Int v, std::int32_t* words) {
    const Int digits = _mm512_xor_si512(add(v, _mm512_set1_epi32(128)), _mm512_set1_epi32(128));
    const __m128i order = _mm_setr_epi8(1, 5, 9, 13, 0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1);
    const Int bytes = _mm512_shuffle_epi8(digits, _mm512_broadcast_i32x4(order));
    const Int packed = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 0, 0, 0, 0), bytes);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), _mm512_castsi512_si256(packed));
  }

  static NIBBLE_INLINE Float all(float v) { return _mm512_set1_ps(v); }
  static NIBBLE_INLINE Float load(const float* p) { return _mm512_loadu_ps(p); }
  static NIBBLE_INLINE Float load(const core::Fp16* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static NIBBLE_INLINE void store(float* p, Float v) { _mm512_storeu_ps(p, v); }
  static NIBBLE_INLINE void store(std::int32_t* p, Int v) { _mm512_storeu_si512(p, v); }
  static NIBBLE_INLINE Float to_float(Int v) { return _mm512_cvtepi32_ps(v); }
  static NIBBLE_INLINE Int to_int(Float v) { return _mm512_cvtps_epi32(v); }
  static NIBBLE_INLINE Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
  static NIBBLE_INLINE Float sub(Float a, Float b) { return _mm512_sub_ps(a, b); }
  static NIBBLE_INLINE Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
  static NIBBLE_INLINE Float max(Float a, Float b) { return _mm512_max_ps(a, b); }
  static NIBBLE_INLINE Float min(Float a, Float b) { return _mm512_min_ps(a, b); }
  /// b, or 0 where a is 0.
  static NIBBLE_INLINE Float zero_unless(Float a, Float b) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_NEQ_UQ), b);
  }
  static NIBBLE_INLINE float largest_lane(Float v) { return _mm512_reduce_max_ps(v); }
  static NIBBLE_INLINE core::Fp16 narrow(float v) {
    const __m128i half = _mm_cvtps_ph(_mm_set_ss(v), _MM_FROUND_TO_NEAREST_INT);
    return core::Fp16{static_cast<std::uint16_t>(_mm_extract_epi16(half, 0))};
  }
  static NIBBLE_INLINE float widen(core::Fp16 v) { return _cvtsh_ss(v.bits); }
};

#include "ops/cpu/attention/codes/code_kernels.inc"

}  // namespace code_avx512vnni

const CodeKernels& code_kernels_avx512vnni() {
  return code_avx512vnni::kKernels;
}

}  // namespace nibble::ops::cpu
