#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/random.h"
#include "formats/format.h"
#include "ops/cpu/packed/test_problems.h"

namespace nibble::ops::cpu::testing {

/// Which share of its groups a row keeps, or a tile of rows that keep the same ones.
using KeptShare = std::function<double(std::int64_t row)>;

/// Every fifth row keeps all, every third none (the first of them is row `empty`), the others about
/// `share`.
inline KeptShare mixed_share(double share = 0.5, std::int64_t empty = 0) {
  return [=](std::int64_t row) { return row % 5 == 4 ? 1.0 : row % 3 == empty ? 0.0 : share; };
}

/// Block-sparse rows with random codes, scales, zeros and books. Of rows that keep the same groups
/// the first says which.
inline formats::PackedWeight sparse_weight(const std::string& text, std::int64_t n, std::int64_t k,
                                           std::uint64_t seed,
                                           const KeptShare& share = mixed_share()) {
  core::Random random(seed);
  const formats::Scheme scheme = formats::parse_scheme(text);
  const std::int64_t group = scheme.scale.group;
  formats::PackedWeightBuilder builder(scheme, n, k);
  std::vector<bool> kept(static_cast<std::size_t>(k / group));
  for (std::int64_t row = 0; row < n; ++row) {
    for (std::size_t g = 0; row % formats::pattern_rows(scheme) == 0 && g < kept.size(); ++g) {
      kept[g] = random.uniform() < share(row / formats::pattern_rows(scheme));
    }
    std::vector<std::uint8_t> codes = random_codes(scheme, k, random);
    for (std::int64_t g = 0; g < k / group; ++g) {
      auto parameters = random_parameters(scheme, row, random, builder);
      const bool is_kept = kept[static_cast<std::size_t>(g)];
      if (!is_kept && formats::has_book(scheme)) {
        parameters.scale = 0;
      } else if (!is_kept) {
        std::fill_n(codes.begin() + g * group, group, static_cast<std::uint8_t>(parameters.zero));
      }
      builder.set_group(row, g, parameters);
    }
    builder.set_codes(row, codes);
    if (scheme.code.book == formats::Book::kPerRow ||
        (scheme.code.book == formats::Book::kPerMatrix && row == 0)) {
      builder.set_book(row, random_book(scheme, random));
    }
  }
  return builder.finish();
}

}  // namespace nibble::ops::cpu::testing
