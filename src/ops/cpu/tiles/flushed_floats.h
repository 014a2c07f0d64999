#pragma once

/// Arithmetic of float32 with DAZ and FTZ, as tile registers of x86-64 do it, in plain C++ for
/// tests: to nearest even; what is below 2^-126 counts as a zero of its sign. It may be
/// compiled for one instruction set.
namespace nibble::ops::cpu {
namespace {

inline float flushed(float x) {
  return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x;
}

inline float flushed_sum(float a, float b) {
  return flushed(flushed(a) + flushed(b));
}

/// a b + c for numbers a and b of 8 bits. Tiny is what would be below 2^-126 if it were rounded to
/// 24 bits with more room for its exponent (Software Developer's Manual, volume 1, 4.9.1.5), even
/// where subnormal numbers would round it up to 2^-126.
inline float flushed_multiply_add(float a, float b, float c) {
  a = flushed(a);
  b = flushed(b);
  c = flushed(c);
  const float sum = __builtin_fmaf(a, b, c);
  const double exact = static_cast<double>(a) * b + c;  // exact where the sum is that small
  return __builtin_fabs(exact) < 0x1p-126 - 0x1p-151 ? __builtin_copysignf(0.0f, sum) : sum;
}

}  // namespace
}  // namespace nibble::ops::cpu
