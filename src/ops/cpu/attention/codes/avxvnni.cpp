#include "ops/cpu/attention/codes/isa256.h"
#include "ops/cpu/cpu_features.h"

// vpdpbusd multiplies u8 codes with s8 and adds the four products of a quad in 32 bits, exactly.
// The words of a quad are the high bytes of its four integers, then the low ones.
namespace nibble::ops::cpu {
namespace code_avxvnni {

struct Isa : Isa256 {
  static constexpr const char* kName = "avxvnni";
  static bool runs_here() { return cpu_features().avxvnni; }
  using Codes = Int;
  struct Sum {
    Int high;
    Int low;
  };

  static NIBBLE_INLINE Codes split(Int line) { return line; }
  static NIBBLE_INLINE Sum no_sum() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  // In assembly because GCC 12 copies the accumulator of the intrinsic.
  static NIBBLE_INLINE void multiply(Sum& sum, Codes codes, const std::int32_t* words) {
    const Int high = _mm256_set1_epi32(words[0]);
    const Int low = _mm256_set1_epi32(words[1]);
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.high) : "x"(codes), "x"(high));
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.low) : "x"(codes), "x"(low));
  }
  static NIBBLE_INLINE Int total(Sum sum) { return add(_mm256_slli_epi32(sum.high, 8), sum.low); }
  // v + 128 is 256 * high + (low + 128), and low + 128 is low with its sign bit turned.
  static NIBBLE_INLINE void put_words(Int v, std::int32_t* words) {
    const Int digits = _mm256_xor_si256(add(v, _mm256_set1_epi32(128)), _mm256_set1_epi32(128));
    const __m128i order = _mm_setr_epi8(1, 5, 9, 13, 0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1);
    put_halves(_mm256_shuffle_epi8(digits, _mm256_broadcastsi128_si256(order)), words);
  }
};

#include "ops/cpu/attention/codes/code_kernels.inc"

}  // namespace code_avxvnni

const CodeKernels& code_kernels_avxvnni() {
  return code_avxvnni::kKernels;
}

}  // namespace nibble::ops::cpu
