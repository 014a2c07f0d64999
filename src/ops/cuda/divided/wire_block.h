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
inline constexpr int kMost = (1 << (kBits - 1)) - 1;
inline constexpr std::uint32_t kNotFinite = 255;  // of the exponent, biased by 127
// Smaller numbers have the steps of these: the scale of such would be no float32.
inline constexpr std::uint32_t kLeast = 15;

NIBBLE_ON_BOTH float from_bits(std::uint32_t bits) {
  float value = 0;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

/// 2^power
NIBBLE_ON_BOTH float power_of_two(std::int32_t power) {
  return from_bits(static_cast<std::uint32_t>(power + 127) << 23);
}

}  // namespace wire

NIBBLE_ON_BOTH bool has_come(const WireBlock& block) {
  return (block.words[3] >> 24) != 0;
}

/// Of float32 by their bits.
NIBBLE_ON_BOTH WireBlock to_wire_block(const std::uint32_t (&bits)[kWireBlock]) {
  std::uint32_t largest = 0;
  for (int i = 0; i < kWireBlock; ++i) {
    const std::uint32_t magnitude = bits[i] & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  std::uint32_t exponent = largest >> 23;
  exponent = exponent > wire::kLeast ? exponent : wire::kLeast;
  const bool finite = exponent != wire::kNotFinite;
  const float scale =
      wire::power_of_two(finite ? 127 + wire::kBits - 2 - static_cast<std::int32_t>(exponent) : 0);
  WireBlock block{};
  for (int i = 0; i < kWireBlock; ++i) {
    // What would round to a power of two that has no code stays below.
    const float scaled = finite ? rintf(wire::from_bits(bits[i]) * scale) : 0.0f;
    const float bounded =
        fmaxf(-static_cast<float>(wire::kMost), fminf(static_cast<float>(wire::kMost), scaled));
    const auto code = static_cast<std::uint32_t>(static_cast<std::int32_t>(bounded)) & 0x7fffu;
    const int at = wire::kBits * i;
    block.words[at / 32] |= code << (at % 32);
    if (at % 32 > 32 - wire::kBits) {
      block.words[at / 32 + 1] |= code >> (32 - at % 32);
    }
  }
  block.words[3] |= exponent << 24;
  return block;
}

/// The numbers of a block; all of them NaN where one was not finite.
NIBBLE_ON_BOTH void from_wire_block(const WireBlock& block, float (&values)[kWireBlock]) {
  const std::uint32_t exponent = block.words[3] >> 24;
  const float step =
      exponent == wire::kNotFinite
          ? wire::from_bits(0x7fc00000u)
          : wire::power_of_two(static_cast<std::int32_t>(exponent) - 127 - (wire::kBits - 2));
  for (int i = 0; i < kWireBlock; ++i) {
    const int at = wire::kBits * i;
    std::uint32_t code = block.words[at / 32] >> (at % 32);
    if (at % 32 > 32 - wire::kBits) {
      code |= block.words[at / 32 + 1] << (32 - at % 32);
    }
    const std::int32_t shifted = static_cast<std::int32_t>(code << (32 - wire::kBits));
    values[i] = static_cast<float>(shifted >> (32 - wire::kBits)) * step;
  }
}

}  // namespace nibble::ops::cuda

#undef NIBBLE_ON_BOTH
