#include "core/random.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace nibble::core {

Random::Random(std::uint64_t seed) {
  for (std::uint64_t& word : state_) {  // splitmix64
    seed += 0x9e3779b97f4a7c15u;
    std::uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    word = z ^ (z >> 31);
  }
}

std::uint64_t Random::bits() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double Random::uniform() {
  return static_cast<double>(bits() >> 11) * 0x1.0p-53;
}

float Random::normal() {  // Box-Muller
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * uniform()));
}

std::int64_t Random::below(std::int64_t bound) {
  __extension__ typedef unsigned __int128 Wide;  // not ISO C++, which -Wpedantic -Werror minds
  return static_cast<std::int64_t>((static_cast<Wide>(bits()) * static_cast<Wide>(bound)) >> 64);
}

}  // namespace nibble::core
