#include <cmath>

#include "ops/cpu/vector/vector_kernels.h"

// Portable kernels: one float at a time. They are also the reference of the others.
namespace nibble::ops::cpu {
namespace baseline {

constexpr std::int64_t kWidth = 1;
constexpr std::int64_t kMixed = 1;       // registers of each of kDotRows mixtures at a time
constexpr std::int64_t kDotColumns = 2;  // vectors of a tile of dot_products()
constexpr std::int64_t kScoreRows = 4;   // rows of a tile of score_transposed()
// The lanes in an order in which reduce_add() adds neighbours, then pairs of them, and so on.
constexpr std::int64_t kLaneOrder[kWidth] = {0};
constexpr const char* kIsaName = "baseline";

struct Nibbles {
  const std::uint8_t* bytes;
  std::int64_t at;
};

struct Floats {
  float value;

  static Floats zero() { return {0.0f}; }
  static Floats all(float a) { return {a}; }
  static Floats load(const float* p) { return {*p}; }
  static Floats load(const core::Fp16* p) { return {core::to_float(*p)}; }
  static Floats load(const core::Bf16* p) { return {core::to_float(*p)}; }
  static Floats load(const core::E4m3* p) { return {core::to_float(*p)}; }
  static Floats load(const std::uint8_t* p) { return {static_cast<float>(*p)}; }
  static Floats load(Nibbles codes) {
    const int byte = codes.bytes[codes.at / 2];
    return {static_cast<float>(codes.at % 2 == 0 ? byte & 15 : byte >> 4)};
  }
  template <typename W>
  static Floats load_partial(W p, std::int64_t) {
    return load(p);
  }
  void store(float* p) const { *p = value; }
  void store(core::Fp16* p) const { *p = core::to_fp16(value); }
  template <typename T>
  void store_partial(T* p, std::int64_t) const {
    store(p);
  }
};

inline Floats operator+(Floats a, Floats b) {
  return {a.value + b.value};
}
inline Floats operator-(Floats a, Floats b) {
  return {a.value - b.value};
}
inline Floats operator*(Floats a, Floats b) {
  return {a.value * b.value};
}
inline Floats operator/(Floats a, Floats b) {
  return {a.value / b.value};
}
inline Floats fma(Floats a, Floats b, Floats c) {
  return {a.value * b.value + c.value};
}
inline Floats min(Floats a, Floats b) {
  return a.value < b.value ? a : b;
}
inline Floats max(Floats a, Floats b) {
  return a.value > b.value ? a : b;
}
inline Floats round(Floats a) {
  return {std::nearbyint(a.value)};
}
inline float reduce_add(Floats a) {
  return a.value;
}
inline Floats reduce_add_each(const Floats* sums) {
  return sums[0];
}
inline Floats zero_where_less(Floats a, Floats b, Floats c) {
  return a.value < b.value ? Floats::zero() : c;
}
inline Floats scale_by_power_of_two(Floats a, Floats i) {
  return {std::ldexp(a.value, static_cast<int>(i.value))};
}

#include "ops/cpu/vector/vector_kernels.inc"

}  // namespace baseline

const VectorKernels& vector_kernels_baseline() {
  return baseline::kKernels;
}

}  // namespace nibble::ops::cpu
