#pragma once

#include <string>
#include <vector>

#include "core/float16.h"
#include "formats/format.h"
#include "ops/cpu/packed/test_problems.h"

/// Random weights of which two of each four inputs are stored.
namespace nibble::ops::cuda {

inline formats::PackedWeight kept_weight(const std::string& scheme, std::int64_t n, std::int64_t k,
                                         std::uint64_t seed) {
  const formats::Scheme parsed = formats::parse_scheme(scheme);
  if (formats::has_codes(parsed)) {
    return cpu::testing::random_weight(scheme, n, k, seed);
  }
  core::Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(n * k));
  for (std::int64_t four = 0; four < n * k / formats::kFour; ++four) {
    for (int i = 0; i < 2; ++i) {
      values[static_cast<std::size_t>(four * formats::kFour + random.below(formats::kFour))] =
          random.normal();
    }
  }
  return formats::round_to_nearest(values, n, k, parsed);
}

}  // namespace nibble::ops::cuda
