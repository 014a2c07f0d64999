#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/random.h"
#include "formats/format.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cuda/packed/unit_rows.h"

namespace nibble::ops::cuda {

/// Which share of its groups a row keeps.
using KeptShare = std::function<double(std::int64_t row)>;

/// Every third row keeps none, every fifth all, the others about half.
inline double mixed_share(std::int64_t row) {
  return row % 5 == 4 ? 1.0 : row % 3 == 0 ? 0.0 : 0.5;
}

/// Block-sparse rows with random codes, scales and zeros.
inline formats::PackedWeight sparse_weight(const std::string& text, std::int64_t n, std::int64_t k,
                                           std::uint64_t seed,
                                           const KeptShare& share = mixed_share) {
  core::Random random(seed);
  const formats::Scheme scheme = formats::parse_scheme(text);
  const std::int64_t group = scheme.scale.group;
  formats::PackedWeightBuilder builder(scheme, n, k);
  for (std::int64_t row = 0; row < n; ++row) {
    std::vector<std::uint8_t> codes = cpu::testing::random_codes(scheme, k, random);
    for (std::int64_t g = 0; g < k / group; ++g) {
      const auto parameters = cpu::testing::random_parameters(scheme, row, random, builder);
      builder.set_group(row, g, parameters);
      if (random.uniform() >= share(row)) {
        std::fill_n(codes.begin() + g * group, group, static_cast<std::uint8_t>(parameters.zero));
      }
    }
    builder.set_codes(row, codes);
  }
  return builder.finish();
}

}  // namespace nibble::ops::cuda
