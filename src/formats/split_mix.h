#pragma once

#include <cstdint>
#include <vector>

namespace nibble::formats {

/// Test data that Python makes bit by bit as well: SplitMix64 (Steele, Lea and Flood 2014), three
/// outputs give twelve 16-bit numbers, whose centred sum is nearly N(0, 1) and exact in float32.
inline std::vector<float> split_mix_normals(std::uint64_t seed, std::size_t count) {
  std::uint64_t state = seed;
  const auto next = [&state] {
    state += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  };
  std::vector<float> values(count);
  for (float& value : values) {
    std::int64_t sum = -6 * 65535;
    for (int i = 0; i < 3; ++i) {
      const std::uint64_t z = next();
      sum += static_cast<std::int64_t>((z & 0xffff) + ((z >> 16) & 0xffff) + ((z >> 32) & 0xffff) +
                                       (z >> 48));
    }
    value = static_cast<float>(sum) / 65536.0f;
  }
  return values;
}

}  // namespace nibble::formats
