#include <cmath>

#include "ops/cpu/attention/codes/code_kernels.h"

// 16 lanes in plain C++: what runs where nothing else does, and the reference of the others. The
// two words of a quad are integers 0 and 2, then 1 and 3, of 16 bits each.
#define NIBBLE_INLINE inline

namespace nibble::ops::cpu {
namespace code_plain {

struct Isa {
  static constexpr const char* kName = "plain";
  static bool runs_here() { return true; }
  static constexpr std::int64_t kLanes = 16;
  static constexpr bool kLifts = false;
  struct Int {
    std::int32_t lanes[kLanes];
  };
  struct Float {
    float lanes[kLanes];
  };
  struct Codes {
    std::uint8_t bytes[4 * kLanes];
  };
  using Line = Codes;
  using Sum = Int;

  template <typename F>
  static Float each(F f) {
    Float result{};
    for (std::int64_t i = 0; i < kLanes; ++i) {
      result.lanes[i] = f(i);
    }
    return result;
  }

  static Codes load(const std::uint8_t* p) {
    Codes codes{};
    __builtin_memcpy(codes.bytes, p, sizeof(codes.bytes));
    return codes;
  }
  static Codes low_nibbles(Codes v) {
    for (std::uint8_t& byte : v.bytes) {
      byte &= 15;
    }
    return v;
  }
  static Codes high_nibbles(Codes v) {
    for (std::uint8_t& byte : v.bytes) {
      byte = static_cast<std::uint8_t>(byte >> 4);
    }
    return v;
  }
  static const Codes& split(const Codes& v) { return v; }
  static Sum no_sum() { return {}; }
  static void multiply(Sum& sum, const Codes& codes, const std::int32_t* words) {
    const std::int32_t w0 = static_cast<std::int16_t>(words[0]);
    const std::int32_t w1 = static_cast<std::int16_t>(words[1]);
    const std::int32_t w2 = words[0] >> 16;
    const std::int32_t w3 = words[1] >> 16;
    for (std::int64_t i = 0; i < kLanes; ++i) {
      const std::uint8_t* quad = codes.bytes + 4 * i;
      sum.lanes[i] += w0 * quad[0] + w1 * quad[1] + w2 * quad[2] + w3 * quad[3];
    }
  }
  static Int total(const Sum& sum) { return sum; }
  static Int lift(const Int& total, float) { return total; }
  static Int add(Int a, const Int& b) {
    for (std::int64_t i = 0; i < kLanes; ++i) {
      a.lanes[i] += b.lanes[i];
    }
    return a;
  }
  static std::int64_t sum_of_lanes(const Int& v) {
    std::int64_t sum = 0;
    for (const std::int32_t lane : v.lanes) {
      sum += lane;
    }
    return sum;
  }
  static void put_words(const Int& v, std::int32_t* words) {
    const auto pair = [&](std::int64_t low, std::int64_t high) {
      return static_cast<std::int32_t>((static_cast<std::uint32_t>(v.lanes[low]) & 0xffffu) |
                                       static_cast<std::uint32_t>(v.lanes[high]) << 16);
    };
    for (std::int64_t i = 0; i < kLanes; i += 4) {
      words[i / 2] = pair(i, i + 2);
      words[i / 2 + 1] = pair(i + 1, i + 3);
    }
  }

  static Float all(float v) {
    return each([&](std::int64_t) { return v; });
  }
  static Float load(const float* p) {
    return each([&](std::int64_t i) { return p[i]; });
  }
  static Float load(const core::Fp16* p) {
    return each([&](std::int64_t i) { return core::to_float(p[i]); });
  }
  static void store(float* p, const Float& v) { __builtin_memcpy(p, v.lanes, sizeof(v.lanes)); }
  static void store(std::int32_t* p, const Int& v) {
    __builtin_memcpy(p, v.lanes, sizeof(v.lanes));
  }
  static Float to_float(const Int& v) {
    return each([&](std::int64_t i) { return static_cast<float>(v.lanes[i]); });
  }
  // What is no integer of 32 bits is the smallest of them, as on x86-64.
  static Int to_int(const Float& v) {
    Int result{};
    for (std::int64_t i = 0; i < kLanes; ++i) {
      const float whole = std::nearbyint(v.lanes[i]);
      const bool fits = whole >= -2147483648.0f && whole < 2147483648.0f;
      result.lanes[i] = fits ? static_cast<std::int32_t>(whole) : INT32_MIN;
    }
    return result;
  }
  static Float mul(const Float& a, const Float& b) {
    return each([&](std::int64_t i) { return a.lanes[i] * b.lanes[i]; });
  }
  static Float sub(const Float& a, const Float& b) {
    return each([&](std::int64_t i) { return a.lanes[i] - b.lanes[i]; });
  }
  static Float fma(const Float& a, const Float& b, const Float& c) {
    return each([&](std::int64_t i) { return std::fma(a.lanes[i], b.lanes[i], c.lanes[i]); });
  }
  // b where one is NaN, as on x86-64.
  static Float max(const Float& a, const Float& b) {
    return each([&](std::int64_t i) { return a.lanes[i] > b.lanes[i] ? a.lanes[i] : b.lanes[i]; });
  }
  static Float min(const Float& a, const Float& b) {
    return each([&](std::int64_t i) { return a.lanes[i] < b.lanes[i] ? a.lanes[i] : b.lanes[i]; });
  }
  // b, or 0 where a is 0.
  static Float zero_unless(const Float& a, const Float& b) {
    return each([&](std::int64_t i) { return a.lanes[i] == 0.0f ? 0.0f : b.lanes[i]; });
  }
  static float largest_lane(const Float& v) {
    float largest = v.lanes[0];
    for (const float lane : v.lanes) {
      largest = lane > largest ? lane : largest;
    }
    return largest;
  }
  static core::Fp16 narrow(float v) { return core::to_fp16(v); }
  static float widen(core::Fp16 v) { return core::to_float(v); }
};

#include "ops/cpu/attention/codes/code_kernels.inc"

}  // namespace code_plain

const CodeKernels& code_kernels_plain() {
  return code_plain::kKernels;
}

}  // namespace nibble::ops::cpu
