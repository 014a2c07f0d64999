#include <arm_neon.h>

#include "ops/cpu/attention/codes/code_kernels.h"
#include "ops/cpu/cpu_features.h"

#define NIBBLE_INLINE inline __attribute__((always_inline))

// SDOT multiplies s8 with s8 and adds the four products of a quad in 32 bits, exactly. Codes are
// taken 128 lower, and 128 times the sum of the integers is added to what comes out. The words of a
// quad are the high bytes of its four integers, then the low ones.
namespace nibble::ops::cpu {
namespace code_neon {

struct Isa {
  static constexpr const char* kName = "neon";
  static bool runs_here() { return cpu_features().dotprod; }
  static constexpr std::int64_t kLanes = 4;
  static constexpr bool kLifts = true;
  using Int = int32x4_t;
  using Float = float32x4_t;
  using Line = uint8x16_t;
  using Codes = int8x16_t;
  struct Sum {
    Int high;
    Int low;
  };

  static NIBBLE_INLINE Line load(const std::uint8_t* p) { return vld1q_u8(p); }
  static NIBBLE_INLINE Line low_nibbles(Line v) { return vandq_u8(v, vdupq_n_u8(15)); }
  static NIBBLE_INLINE Line high_nibbles(Line v) { return vshrq_n_u8(v, 4); }
  static NIBBLE_INLINE Codes split(Line line) {
    return vreinterpretq_s8_u8(veorq_u8(line, vdupq_n_u8(128)));
  }
  static NIBBLE_INLINE Sum no_sum() { return {vdupq_n_s32(0), vdupq_n_s32(0)}; }
  static NIBBLE_INLINE void multiply(Sum& sum, Codes codes, const std::int32_t* words) {
    sum.high = vdotq_s32(sum.high, codes, vreinterpretq_s8_s32(vld1q_dup_s32(words)));
    sum.low = vdotq_s32(sum.low, codes, vreinterpretq_s8_s32(vld1q_dup_s32(words + 1)));
  }
  static NIBBLE_INLINE Int total(Sum sum) { return vaddq_s32(vshlq_n_s32(sum.high, 8), sum.low); }
  static NIBBLE_INLINE Int add(Int a, Int b) { return vaddq_s32(a, b); }
  static NIBBLE_INLINE Int lift(Int total, float sum) {
    return vaddq_s32(total, vdupq_n_s32(128 * static_cast<std::int32_t>(sum)));
  }
  static NIBBLE_INLINE std::int64_t sum_of_lanes(Int v) { return vaddvq_s32(v); }
  static NIBBLE_INLINE void put_words(Int v, std::int32_t* words) {
    const Int high = vshrq_n_s32(vaddq_s32(v, vdupq_n_s32(128)), 8);
    const int8x8_t low_bytes = vmovn_s16(vcombine_s16(vmovn_s32(v), vmovn_s32(v)));
    const int8x8_t high_bytes = vmovn_s16(vcombine_s16(vmovn_s32(high), vmovn_s32(high)));
    words[0] = vget_lane_s32(vreinterpret_s32_s8(high_bytes), 0);
    words[1] = vget_lane_s32(vreinterpret_s32_s8(low_bytes), 0);
  }

  static NIBBLE_INLINE Float all(float v) { return vdupq_n_f32(v); }
  static NIBBLE_INLINE Float load(const float* p) { return vld1q_f32(p); }
  static NIBBLE_INLINE Float load(const core::Fp16* p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const std::uint16_t*>(p))));
  }
  static NIBBLE_INLINE void store(float* p, Float v) { vst1q_f32(p, v); }
  static NIBBLE_INLINE void store(std::int32_t* p, Int v) { vst1q_s32(p, v); }
  static NIBBLE_INLINE Float to_float(Int v) { return vcvtq_f32_s32(v); }
  static NIBBLE_INLINE Int to_int(Float v) { return vcvtnq_s32_f32(v); }
  static NIBBLE_INLINE Float mul(Float a, Float b) { return vmulq_f32(a, b); }
  static NIBBLE_INLINE Float sub(Float a, Float b) { return vsubq_f32(a, b); }
  static NIBBLE_INLINE Float fma(Float a, Float b, Float c) { return vfmaq_f32(c, a, b); }
  static NIBBLE_INLINE Float max(Float a, Float b) { return vmaxq_f32(a, b); }
  static NIBBLE_INLINE Float min(Float a, Float b) { return vminq_f32(a, b); }
  /// b, or 0 where a is 0.
  static NIBBLE_INLINE Float zero_unless(Float a, Float b) {
    return vreinterpretq_f32_u32(
        vbicq_u32(vreinterpretq_u32_f32(b), vceqq_f32(a, vdupq_n_f32(0.0f))));
  }
  static NIBBLE_INLINE float largest_lane(Float v) { return vmaxvq_f32(v); }
  static NIBBLE_INLINE core::Fp16 narrow(float v) {
    const float16x4_t half = vcvt_f16_f32(vdupq_n_f32(v));
    return core::Fp16{vget_lane_u16(vreinterpret_u16_f16(half), 0)};
  }
  static NIBBLE_INLINE float widen(core::Fp16 v) {
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(v.bits))), 0);
  }
};

#include "ops/cpu/attention/codes/code_kernels.inc"

}  // namespace code_neon

const CodeKernels& code_kernels_neon() {
  return code_neon::kKernels;
}

}  // namespace nibble::ops::cpu
