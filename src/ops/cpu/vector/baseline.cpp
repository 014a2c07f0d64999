#include <cmath>
#include <cstring>

#include "ops/cpu/vector/vector_kernels.h"

// Portable kernels: one float at a time. They are also the reference of the others.
namespace nibble::ops::cpu {
namespace baseline {

constexpr VectorShape kShape = {
    .isa = "baseline", .width = 1, .mixed = 1, .dot_columns = 2, .score_rows = 4};
constexpr std::int64_t kLaneOrder[] = {0};

// What takes an instruction of its own.
struct Register {
  static float fma(float a, float b, float c) { return a * b + c; }
  static float min(float a, float b) { return a < b ? a : b; }
  static float max(float a, float b) { return a > b ? a : b; }
  static float round(float a) { return std::nearbyint(a); }
  static float zero_where_less(float a, float b, float c) { return a < b ? 0.0f : c; }
  static float scale_by_power_of_two(float a, float i) {
    return std::ldexp(a, static_cast<int>(i));
  }
};

struct Floats {
  float value;

  static Floats zero() { return {0.0f}; }
  static Floats all(float a) { return {a}; }
  static Floats load(const float* p) { return {*p}; }
  static Floats load(const core::Fp16* p) { return {core::to_float(*p)}; }
  static Floats load(const core::Bf16* p) { return {core::to_float(*p)}; }
  static Floats load(const core::E4m3* p) { return {core::to_float(*p)}; }
  void store(float* p) const { *p = value; }
  void store(core::Fp16* p) const { *p = core::to_fp16(value); }

  /// `f` of the registers of some vectors.
  template <typename F, typename... V>
  static Floats each(F f, V... v) {
    return {f(v.value...)};
  }
};

inline float reduce_add(Floats a) {
  return a.value;
}
inline Floats reduce_add_each(const Floats* sums) {
  return sums[0];
}

#include "ops/cpu/vector/vector_kernels.inc"

}  // namespace baseline

const VectorKernels& vector_kernels_baseline() {
  return baseline::kKernels;
}

}  // namespace nibble::ops::cpu
