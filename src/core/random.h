#pragma once

#include <cstdint>

namespace nibble::core {

/// xoshiro256** seeded by splitmix64 (Blackman and Vigna 2018): the same numbers on every machine,
/// unlike the distributions of <random>.
class Random {
 public:
  explicit Random(std::uint64_t seed);

  std::uint64_t bits();                    // 64 random bits
  double uniform();                        // in [0, 1)
  float normal();                          // N(0, 1)
  std::int64_t below(std::int64_t bound);  // in [0, bound); bound > 0

 private:
  std::uint64_t state_[4] = {};
};

}  // namespace nibble::core
