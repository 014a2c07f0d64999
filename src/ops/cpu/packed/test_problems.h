#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "core/float16.h"
#include "core/random.h"
#include "formats/format.h"
#include "formats/nv/e4m3.h"
#include "formats/packed_weight.h"
#include "formats/row_unit.h"
#include "formats/scheme.h"
#include "ops/cpu/packed/reference.h"

/// Random layers and the accept rule of the packed kernels' tests.
namespace nibble::ops::cpu::testing {

inline constexpr float kNvGlobal = 0.0000371f;  // no power of two

/// A weight with random codes, scales, zeros and books: every code occurs, neighbours differ.
inline formats::PackedWeight random_weight(const std::string& scheme_text, std::int64_t n,
                                           std::int64_t k, std::uint64_t seed) {
  core::Random random(seed);
  const formats::Scheme scheme = formats::parse_scheme(scheme_text);
  const int codes = 1 << scheme.code.bits;
  formats::PackedWeightBuilder builder(scheme, n, k);
  std::vector<std::uint8_t> row(static_cast<std::size_t>(k));
  std::vector<float> book(static_cast<std::size_t>(codes));
  if (scheme.scale.type == formats::ScaleType::kE4m3) {
    builder.set_global(kNvGlobal);
  }
  for (std::int64_t r = 0; r < n; ++r) {
    for (std::uint8_t& code : row) {
      code = static_cast<std::uint8_t>(random.below(codes));
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(scheme.inputs.tail); ++i) {
      row[row.size() - 1 - i] = static_cast<std::uint8_t>(1 + random.below(255));
    }
    builder.set_codes(r, row);
    if (scheme.inputs.tail != 0) {
      builder.set_group(r, formats::groups_per_row(scheme, k), {0.00048828125f, 128});
    }
    for (std::int64_t g = 0; g < formats::groups_per_row(scheme, k); ++g) {
      formats::GroupParameters parameters;
      parameters.zero =
          !formats::has_zeros(scheme) ? codes / 2 : static_cast<int>(random.below(codes));
      if (scheme.scale.type == formats::ScaleType::kE8m0) {
        parameters.scale = std::ldexp(1.0f, static_cast<int>(random.below(9)) - 12);
      } else if (scheme.scale.type == formats::ScaleType::kE4m3) {
        parameters.scale =
            formats::e4m3_to_float(static_cast<std::uint8_t>(1 + random.below(126))) * kNvGlobal;
      } else if (scheme.scale.type == formats::ScaleType::kUnits) {
        constexpr std::uint8_t kUnit = 45;
        const float unit = formats::unit_value(kUnit);
        builder.set_unit(r, kUnit);
        parameters.scale =
            formats::scale_of_units(static_cast<std::uint8_t>(1 + random.below(63)), unit);
      } else {
        parameters.scale =
            core::to_float(core::to_fp16(0.001f + 0.01f * static_cast<float>(random.uniform())));
      }
      builder.set_group(r, g, parameters);  // of row 0 where it is one for the matrix
    }
    if (scheme.code.book == formats::Book::kPerRow ||
        (scheme.code.book == formats::Book::kPerMatrix && r == 0)) {
      for (float& value : book) {
        value = core::to_float(core::to_fp16(8.0f * random.normal()));
      }
      builder.set_book(r, book);
    }
  }
  if (scheme.inputs.tail != 0) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(k));
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i] = static_cast<std::int32_t>(i);
      std::swap(order[i],
                order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i) + 1))]);
    }
    builder.set_permutation(order);
  }
  return builder.finish();
}

inline std::vector<float> random_input(std::int64_t m, std::int64_t k, std::uint64_t seed) {
  core::Random random(seed);
  std::vector<float> x(static_cast<std::size_t>(m * k));
  for (float& value : x) {
    value = random.normal();
  }
  return x;
}

/// Outcome of comparing a kernel's output with the reference.
struct Comparison {
  std::int64_t bad = 0;  // elements outside the bound; NaN counts as bad
  std::int64_t first_bad = -1;
  double worst = 0.0;  // largest error / bound
};

/// |y - reference| <= 4 * sqrt(chain) * u * magnitude + u * |reference|, element by element, u =
/// 2^-24. Only the sum over groups rounds (the integers are exact), so `chain` is the number of
/// groups and `magnitude` the sum of what groups add. The root: Higham and Mary 2019, probabilistic
/// error analysis.
inline Comparison compare(std::span<const float> y, const PackedReference& reference,
                          std::int64_t chain) {
  const double unit = std::ldexp(1.0, -24);
  Comparison result;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double bound =
        4.0 * std::sqrt(static_cast<double>(chain)) * unit * reference.magnitude[i] +
        unit * std::fabs(reference.y[i]) + std::numeric_limits<float>::denorm_min();
    const double ratio = std::fabs(static_cast<double>(y[i]) - reference.y[i]) / bound;
    if (!(ratio <= 1.0)) {  // written so that NaN fails
      result.first_bad = result.bad == 0 ? static_cast<std::int64_t>(i) : result.first_bad;
      ++result.bad;
    }
    result.worst = std::fmax(result.worst, ratio);
  }
  return result;
}

}  // namespace nibble::ops::cpu::testing
