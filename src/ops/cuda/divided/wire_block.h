#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define NIBBLE_ON_BOTH __host__ __device__ __forceinline__
#else
#define NIBBLE_ON_BOTH inline
#endif

/// How many numbers travel between GPUs: eight at a time, with one exponent, that of the largest of
/// them, and 15 bits each. The error is at most 2^-14 of the largest; inputs of products, of 16
/// bits or fewer, have no more.
namespace nibble::ops::cuda {

inline constexpr int kWireBlock = 8;

/// Numbers as they travel: 16 bytes, which arrive at once. The exponent is never 0, so a block that
/// has come is told from zeros.
struct alignas(16) WireBlock {
  std::uint32_t words[4];  // 15 bits of each number from the lowest bit on, then the exponent
};

namespace wire {

inline constexpr int kBits = 15;
inline constexpr std::uint32_t kMask = (1u << kBits) - 1;
inline constexpr std::uint32_t kNotFinite = 255;  // of the exponent, biased by 127
// Half of a step of the largest number, in its last bits.
inline constexpr std::uint32_t kHalfStep = 1u << (23 - (kBits - 2) - 1);
// A float of such a size has steps of 1: its last bits are those of the integer added to it.
inline constexpr float kToInteger = 12582912.0f;  // 1.5 * 2^23
// Smaller numbers have the steps of these: the scale of such would be no float32.
inline constexpr std::uint32_t kLeast = 15;

NIBBLE_ON_BOTH float from_bits(std::uint32_t bits) {
  float value = 0;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

NIBBLE_ON_BOTH std::uint32_t to_bits(float value) {
  std::uint32_t bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// 2^power
NIBBLE_ON_BOTH float power_of_two(std::int32_t power) {
  return from_bits(static_cast<std::uint32_t>(power + 127) << 23);
}

}  // namespace wire

NIBBLE_ON_BOTH bool has_come(const WireBlock& block) {
  return (block.words[3] >> 24) != 0;
}

/// Of float32 by their bits. Their exponent is that of the largest, rounded: so it has a code.
NIBBLE_ON_BOTH WireBlock to_wire_block(const std::uint32_t (&bits)[kWireBlock]) {
  std::uint32_t largest = 0;
  for (int i = 0; i < kWireBlock; ++i) {
    const std::uint32_t magnitude = bits[i] & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  std::uint32_t exponent = (largest + wire::kHalfStep) >> 23;
  exponent = exponent > wire::kLeast ? exponent : wire::kLeast;
  exponent = exponent < wire::kNotFinite ? exponent : wire::kNotFinite;
  const float scale =
      wire::power_of_two(127 + wire::kBits - 2 - static_cast<std::int32_t>(exponent));
  WireBlock block{};
  for (int i = 0; i < kWireBlock; ++i) {
    const std::uint32_t code =
        wire::to_bits(wire::from_bits(bits[i]) * scale + wire::kToInteger) & wire::kMask;
    const int at = wire::kBits * i;
    block.words[at / 32] |= code << (at % 32);
    if (at % 32 > 32 - wire::kBits) {
      block.words[at / 32 + 1] |= code >> (32 - at % 32);
    }
  }
  block.words[3] |= exponent << 24;
  return block;
}

/// Four numbers of a block, the first or (`half` 1) the last; all of them NaN where one of the
/// eight was not finite, or rounds to 2^128.
NIBBLE_ON_BOTH void from_wire_block(const WireBlock& block, int half, float (&values)[4]) {
  const std::uint32_t exponent = block.words[3] >> 24;
  const float step =
      exponent == wire::kNotFinite
          ? wire::from_bits(0x7fc00000u)
          : wire::power_of_two(static_cast<std::int32_t>(exponent) - 127 - (wire::kBits - 2));
  // Bits from 60 on, where it is the last.
  const std::uint32_t low = half == 0 ? block.words[0] : block.words[1] >> 28 | block.words[2] << 4;
  const std::uint32_t high =
      half == 0 ? block.words[1] : block.words[2] >> 28 | block.words[3] << 4;
  const std::uint32_t codes[4] = {low, low >> 15, low >> 30 | high << 2, high >> 13};
  for (int i = 0; i < 4; ++i) {
    const auto shifted = static_cast<std::int32_t>(codes[i] << (32 - wire::kBits));
    values[i] = static_cast<float>(shifted >> (32 - wire::kBits)) * step;
  }
}

/// All eight.
NIBBLE_ON_BOTH void from_wire_block(const WireBlock& block, float (&values)[kWireBlock]) {
  for (int half = 0; half < 2; ++half) {
    float four[4] = {};
    from_wire_block(block, half, four);
    for (int i = 0; i < 4; ++i) {
      values[4 * half + i] = four[i];
    }
  }
}

}  // namespace nibble::ops::cuda

#undef NIBBLE_ON_BOTH
