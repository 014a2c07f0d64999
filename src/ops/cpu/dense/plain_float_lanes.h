#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/float16.h"
#include "ops/cpu/dense/float_tiles.h"

/// What float_lanes512.h gives, in plain C++: for the tests of kernels whose instruction set the
/// machine may lack.
namespace nibble::ops::cpu {
namespace {

struct PlainFloatLanes {
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
  template <typename Word>
  static void transpose(const Word* from, Word* to) {
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 16; ++j) {
        to[j * 16 + i] = from[i * 16 + j];
      }
    }
  }
};

}  // namespace
}  // namespace nibble::ops::cpu
