#include <cstring>

#include <arm_neon.h>

#include "ops/cpu/vector/vector_kernels.h"

// Two vectors of four floats stand for one of eight: the sums of one activation row then run in
// four chains, as many as hide the latency of a multiply-add.
namespace nibble::ops::cpu {
namespace neon {

constexpr VectorShape kShape = {
    .isa = "neon", .width = 8, .mixed = 1, .dot_columns = 2, .score_rows = 2};
constexpr std::int64_t kLaneOrder[] = {0, 4, 1, 5, 2, 6, 3, 7};

// What takes an instruction of its own.
struct Register {
  static float32x4_t fma(float32x4_t a, float32x4_t b, float32x4_t c) { return vfmaq_f32(c, a, b); }
  static float32x4_t min(float32x4_t a, float32x4_t b) { return vminq_f32(a, b); }
  static float32x4_t max(float32x4_t a, float32x4_t b) { return vmaxq_f32(a, b); }
  static float32x4_t round(float32x4_t a) { return vrndnq_f32(a); }
  static float32x4_t zero_where_less(float32x4_t a, float32x4_t b, float32x4_t c) {
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(c), vcltq_f32(a, b)));
  }
  static float32x4_t scale_by_power_of_two(float32x4_t a, float32x4_t i) {
    const int32x4_t exponent = vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(i), vdupq_n_s32(127)), 23);
    return vmulq_f32(a, vreinterpretq_f32_s32(exponent));
  }
};

struct Floats {
  float32x4_t low;
  float32x4_t high;

  static Floats zero() { return all(0.0f); }
  static Floats all(float a) { return {vdupq_n_f32(a), vdupq_n_f32(a)}; }
  static Floats load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
  static Floats load(const core::Fp16* p) {
    const float16x8_t halves =
        vreinterpretq_f16_u16(vld1q_u16(reinterpret_cast<const std::uint16_t*>(p)));
    return {vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
  }
  static Floats load(const core::Bf16* p) {
    const uint16x8_t bits = vld1q_u16(reinterpret_cast<const std::uint16_t*>(p));
    return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(bits), 16)),
            vreinterpretq_f32_u32(vshll_high_n_u16(bits, 16))};
  }
  // Magnitudes stand as float16 of 2^-8 times the number (its bias is 15, not 7), NaN as NaN.
  static Floats load(const core::E4m3* p) {
    const int8x8_t codes = vld1_s8(reinterpret_cast<const std::int8_t*>(p));
    const uint16x8_t shifted = vreinterpretq_u16_s16(vshll_n_s8(codes, 7));
    const uint16x8_t largest = vdupq_n_u16(0x3f80);
    const uint16x8_t nan = vceqq_u16(vandq_u16(shifted, largest), largest);
    const float16x8_t halves = vreinterpretq_f16_u16(
        vorrq_u16(vandq_u16(shifted, vdupq_n_u16(0xbf80)), vandq_u16(nan, vdupq_n_u16(0x7c00))));
    return {vmulq_n_f32(vcvt_f32_f16(vget_low_f16(halves)), 256.0f),
            vmulq_n_f32(vcvt_high_f32_f16(halves), 256.0f)};
  }
  void store(float* p) const {
    vst1q_f32(p, low);
    vst1q_f32(p + 4, high);
  }
  void store(core::Fp16* p) const {
    const float16x8_t halves = vcvt_high_f16_f32(vcvt_f16_f32(low), high);
    vst1q_u16(reinterpret_cast<std::uint16_t*>(p), vreinterpretq_u16_f16(halves));
  }

  /// `f` of the registers of some vectors.
  template <typename F, typename... V>
  static Floats each(F f, V... v) {
    return {f(v.low...), f(v.high...)};
  }
};

// Lanes i and i + 4, then neighbours, then the two sums that are left.
inline float reduce_add(Floats a) {
  const float32x4_t half = vaddq_f32(a.low, a.high);
  const float32x4_t pairs = vpaddq_f32(half, half);
  return vgetq_lane_f32(vpaddq_f32(pairs, pairs), 0);
}
inline float32x4_t reduce_add_four(const Floats* sums) {
  float32x4_t half[4];
  for (int i = 0; i < 4; ++i) {
    half[i] = vaddq_f32(sums[i].low, sums[i].high);
  }
  return vpaddq_f32(vpaddq_f32(half[0], half[1]), vpaddq_f32(half[2], half[3]));
}
// Lane i is reduce_add(sums[i]).
inline Floats reduce_add_each(const Floats* sums) {
  return {reduce_add_four(sums), reduce_add_four(sums + 4)};
}

#include "ops/cpu/vector/vector_kernels.inc"

}  // namespace neon

const VectorKernels& vector_kernels_neon() {
  return neon::kKernels;
}

}  // namespace nibble::ops::cpu
