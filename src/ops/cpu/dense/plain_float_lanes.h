#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "core/float16.h"
#include "ops/cpu/dense/float_tiles.h"
#include "ops/cpu/tiles/flushed_floats.h"

/// What float_lanes512.h gives, in plain C++: for the tests of kernels whose instruction set the
/// machine may lack.
namespace nibble::ops::cpu {
namespace {

struct PlainFloatLanes {
  struct Vector {
    float lanes[16];
  };
  struct FlushScope {
    FlushScope() {}  // products and sums are always flushed
  };

  template <typename Lane>
  static Vector each(Lane lane) {
    Vector v = {};
    for (int i = 0; i < 16; ++i) {
      v.lanes[i] = lane(i);
    }
    return v;
  }
  static Vector zero() { return {}; }
  static Vector load(const float* p) {
    return each([&](int i) { return p[i]; });
  }
  static void store(float* p, const Vector& v) { std::copy_n(v.lanes, 16, p); }
  static void store_bits(std::uint32_t* p, const Vector& v) {
    std::memcpy(p, v.lanes, sizeof(v.lanes));
  }
  static Vector broadcast(const std::uint32_t* bits) {
    return each([&](int) { return std::bit_cast<float>(*bits); });
  }
  static Vector multiply_add(const Vector& a, const Vector& b, const Vector& c) {
    return each([&](int i) { return flushed_multiply_add(a.lanes[i], b.lanes[i], c.lanes[i]); });
  }
  static Vector add(const Vector& a, const Vector& b) {
    return each([&](int i) { return flushed_sum(a.lanes[i], b.lanes[i]); });
  }

  static void widen_pairs(const std::uint32_t* pairs, Vector& even, Vector& odd) {
    even = each([&](int i) { return std::bit_cast<float>(pairs[i] << 16); });
    odd = each([&](int i) { return std::bit_cast<float>(pairs[i] & 0xffff0000u); });
  }
  static void split_half(const std::uint16_t* w, Vector& hi, Vector& lo) {
    const Vector value = each([&](int i) { return core::to_float(core::Fp16{w[i]}); });
    hi = each([&](int i) { return rounded(value.lanes[i]); });
    lo = each([&](int i) { return value.lanes[i] - hi.lanes[i]; });
  }

  /// The nearest number of 8 bits; of two that are as near, the larger one.
  static float rounded(float x) {
    return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x8000u) & 0xffff0000u);
  }
  static std::uint32_t upper(float x) { return std::bit_cast<std::uint32_t>(x) >> 16; }

  static void split_inputs(const float* x, std::uint32_t* hi, std::uint32_t* mid,
                           std::uint32_t* lo) {
    for (std::int64_t pair = 0; pair < kStepPairs; ++pair) {
      hi[pair] = mid[pair] = lo[pair] = 0;
      for (int i = 0; i < 2; ++i) {
        const float value = x[2 * pair + i];
        const float first = rounded(value);
        const float second = rounded(value - first);
        hi[pair] |= upper(first) << 16 * i;
        mid[pair] |= upper(second) << 16 * i;
        lo[pair] |= upper(value - first - second) << 16 * i;
      }
    }
  }
  static void split_halves(const std::uint16_t* w, std::uint16_t* hi, std::uint16_t* lo) {
    for (std::int64_t i = 0; i < kStepInputs; ++i) {
      const float value = core::to_float(core::Fp16{w[i]});
      hi[i] = static_cast<std::uint16_t>(upper(rounded(value)));
      lo[i] = static_cast<std::uint16_t>(upper(value - rounded(value)));
    }
  }
  static void copy(const std::uint32_t* from, std::int64_t count, std::uint32_t* to) {
    std::copy_n(from, count, to);
  }
  static void transpose(const void* from, std::int64_t stride, void* to) {
    for (std::int64_t i = 0; i < 16; ++i) {
      for (std::int64_t j = 0; j < 16; ++j) {
        std::memcpy(static_cast<char*>(to) + 4 * (j * 16 + i),
                    static_cast<const char*>(from) + i * stride + 4 * j, 4);
      }
    }
  }
  static void transpose_halves(const void* from, std::int64_t stride, void* to) {
    for (std::int64_t i = 0; i < 16; ++i) {
      for (std::int64_t j = 0; j < kStepInputs; ++j) {
        std::memcpy(static_cast<char*>(to) + 2 * (half_at(j) + i),
                    static_cast<const char*>(from) + i * stride + 2 * j, 2);
      }
    }
  }
  static constexpr std::int64_t half_at(std::int64_t input) { return input * 16; }
};

}  // namespace
}  // namespace nibble::ops::cpu
