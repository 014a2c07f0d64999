#include "ops/cpu/attention/codes/isa256.h"
#include "ops/cpu/cpu_features.h"

// vpmaddwd multiplies integers of 16 bits and adds neighbours in 32: the even bytes of a quad with
// integers 0 and 2, the odd ones with 1 and 3.
namespace nibble::ops::cpu {
namespace code_avx2 {

struct Isa : Isa256 {
  static constexpr const char* kName = "avx2";
  static bool runs_here() { return cpu_features().avx2; }
  struct Codes {
    Int even;
    Int odd;
  };
  using Sum = Int;

  static NIBBLE_INLINE Codes split(Int line) {
    return {_mm256_and_si256(line, _mm256_set1_epi16(255)), _mm256_srli_epi16(line, 8)};
  }
  static NIBBLE_INLINE Sum no_sum() { return _mm256_setzero_si256(); }
  static NIBBLE_INLINE void multiply(Sum& sum, Codes codes, const std::int32_t* words) {
    const Int even = _mm256_madd_epi16(codes.even, _mm256_set1_epi32(words[0]));
    const Int odd = _mm256_madd_epi16(codes.odd, _mm256_set1_epi32(words[1]));
    sum = _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
  }
  static NIBBLE_INLINE Int total(Sum sum) { return sum; }
  static NIBBLE_INLINE void put_words(Int v, std::int32_t* words) {
    const __m128i order = _mm_setr_epi8(0, 1, 8, 9, 4, 5, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1);
    put_halves(_mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(order)), words);
  }
};

#include "ops/cpu/attention/codes/code_kernels.inc"

}  // namespace code_avx2

const CodeKernels& code_kernels_avx2() {
  return code_avx2::kKernels;
}

}  // namespace nibble::ops::cpu
