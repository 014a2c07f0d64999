#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/cpu/dense/plain_float_lanes.h"

/// What attention_lanes512.h gives, in plain C++ and with the same bits: for the tests of kernels
/// whose instruction set the machine may lack.
namespace nibble::ops::cpu {
namespace {

struct PlainAttentionLanes {
  static constexpr int kLanes = 16;
  struct Floats {
    float of[kLanes];
  };
  struct Integers {
    std::int32_t of[kLanes];
  };

  static Floats load(const float* p) {
    return each([&](int i) { return p[i]; });
  }
  static Integers load(const std::int32_t* p) {
    Integers loaded;
    std::copy_n(p, kLanes, loaded.of);
    return loaded;
  }
  static void store(float* p, const Floats& x) { std::copy_n(x.of, kLanes, p); }
  static Floats all(float x) {
    return each([&](int) { return x; });
  }
  static Floats add(const Floats& a, const Floats& b) {
    return each([&](int i) { return a.of[i] + b.of[i]; });
  }
  static Floats subtract(const Floats& a, const Floats& b) {
    return each([&](int i) { return a.of[i] - b.of[i]; });
  }
  static Floats multiply(const Floats& a, const Floats& b) {
    return each([&](int i) { return a.of[i] * b.of[i]; });
  }
  static Floats divide(const Floats& a, const Floats& b) {
    return each([&](int i) { return a.of[i] / b.of[i]; });
  }
  static Floats fma(const Floats& a, const Floats& b, const Floats& c) {
    return each([&](int i) { return std::fma(a.of[i], b.of[i], c.of[i]); });
  }
  static Floats max(const Floats& a, const Floats& b) {
    return each([&](int i) { return a.of[i] > b.of[i] ? a.of[i] : b.of[i]; });
  }
  static Floats scale_where(const Floats& x, float least, const Floats& a, const Floats& exponent) {
    return each([&](int i) {
      return x.of[i] < least ? 0.0f
                             : (std::isfinite(exponent.of[i])
                                    ? std::ldexp(a.of[i], static_cast<int>(exponent.of[i]))
                                    : std::nanf(""));
    });
  }
  static Floats keep_where(const Integers& from, std::int32_t at, const Integers& to,
                           const Floats& x, const Floats& otherwise) {
    return each(
        [&](int i) { return from.of[i] <= at && at < to.of[i] ? x.of[i] : otherwise.of[i]; });
  }

  static void split(const Floats& even, const Floats& odd, std::uint32_t* hi, std::uint32_t* lo) {
    for (int i = 0; i < kLanes; ++i) {
      split_pair(even.of[i], odd.of[i], hi[i], lo[i]);
    }
  }
  static void split_row(const float* x, std::uint32_t* hi, std::uint32_t* lo) {
    for (int i = 0; i < kLanes; ++i) {
      split_pair(x[2 * i], x[2 * i + 1], hi[i], lo[i]);
    }
  }
  static void split_rows(const float* even, const float* odd, std::uint32_t* hi,
                         std::uint32_t* lo) {
    split(load(even), load(odd), hi, lo);
  }
  template <typename Word>
  static void transpose(const Word* from, Word* to) {
    PlainFloatLanes::transpose(from, to);
  }

 private:
  template <typename F>
  static Floats each(F f) {
    Floats made;
    for (int i = 0; i < kLanes; ++i) {
      made.of[i] = f(i);
    }
    return made;
  }
  static void split_pair(float even, float odd, std::uint32_t& hi, std::uint32_t& lo) {
    const float even_digit = PlainFloatLanes::rounded(even);
    const float odd_digit = PlainFloatLanes::rounded(odd);
    hi = PlainFloatLanes::upper(even_digit) | PlainFloatLanes::upper(odd_digit) << 16;
    lo = PlainFloatLanes::upper(nearest(even - even_digit)) |
         PlainFloatLanes::upper(nearest(odd - odd_digit)) << 16;
  }
  static float nearest(float x) {
    const float wide = x * 65537.0f;
    return wide - (wide - x);
  }
};

}  // namespace
}  // namespace nibble::ops::cpu
