#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/float16.h"
#include "core/random.h"
#include "formats/format.h"
#include "formats/nv/e4m3.h"
#include "formats/packed_weight.h"
#include "formats/row_unit.h"
#include "formats/scheme.h"
#include "formats/stored_parts.h"
#include "ops/cpu/packed/reference.h"

/// Random layers and the accept rule of the packed kernels' tests.
namespace nibble::ops::cpu::testing {

inline constexpr float kNvGlobal = 0.0000371f;  // no power of two

/// Whether weights of k inputs can have the scheme.
inline bool exists(const std::string& scheme, std::int64_t k) {
  try {
    formats::require_shape(formats::parse_scheme(scheme), 1, k);
    return true;
  } catch (const core::Error&) {
    return false;
  }
}

/// Scale and zero of a group; kUnits also sets the unit of the row.
inline formats::GroupParameters random_parameters(const formats::Scheme& scheme, std::int64_t row,
                                                  core::Random& random,
                                                  formats::PackedWeightBuilder& builder) {
  const int codes = 1 << scheme.code.bits;
  formats::GroupParameters parameters;
  parameters.zero = !formats::has_zeros(scheme) ? codes / 2 : static_cast<int>(random.below(codes));
  switch (scheme.scale.type) {
    case formats::ScaleType::kE8m0:
      parameters.scale = std::ldexp(1.0f, static_cast<int>(random.below(9)) - 12);
      break;
    case formats::ScaleType::kE4m3:
      parameters.scale =
          formats::e4m3_to_float(static_cast<std::uint8_t>(1 + random.below(126))) * kNvGlobal;
      break;
    case formats::ScaleType::kUnits: {
      constexpr std::uint8_t kUnit = 45;
      builder.set_unit(row, kUnit);
      parameters.scale = formats::scale_of_units(static_cast<std::uint8_t>(1 + random.below(63)),
                                                 formats::unit_value(kUnit));
      break;
    }
    default:
      parameters.scale =
          core::to_float(core::to_fp16(0.001f + 0.01f * static_cast<float>(random.uniform())));
  }
  return parameters;
}

inline std::vector<std::int32_t> random_order(std::int64_t k, core::Random& random) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(k));
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<std::int32_t>(i);
    std::swap(order[i],
              order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i) + 1))]);
  }
  return order;
}

inline std::vector<std::uint8_t> random_codes(const formats::Scheme& scheme, std::int64_t k,
                                              core::Random& random) {
  std::vector<std::uint8_t> row(static_cast<std::size_t>(k));
  for (std::uint8_t& code : row) {
    code = static_cast<std::uint8_t>(random.below(1 << scheme.code.bits));
    const auto is_number = scheme.code.type->is_number;
    code = is_number == nullptr || is_number(code) ? code : std::uint8_t{0};
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(scheme.inputs.tail); ++i) {
    row[row.size() - 1 - i] = static_cast<std::uint8_t>(1 + random.below(255));
  }
  return row;
}

inline std::vector<float> random_book(const formats::Scheme& scheme, core::Random& random) {
  std::vector<float> book(static_cast<std::size_t>(formats::book_size(scheme)));
  for (float& value : book) {
    value = core::to_float(core::to_fp16(8.0f * random.normal()));
  }
  return book;
}

/// A weight that no builder makes, with minima or with scales that are multiples: any bytes are
/// codes and multiples, and float16 numbers are drawn.
inline formats::PackedWeight random_blocks(const formats::Scheme& scheme, std::int64_t n,
                                           std::int64_t k, core::Random& random) {
  formats::PackedWeight weight;
  weight.scheme = scheme;
  weight.n = n;
  weight.k = k;
  for (const formats::StoredPart& part : formats::stored_parts(scheme, n, k)) {
    core::Tensor& tensor = weight.*part.tensor;
    tensor = core::Tensor::zeros(part.dtype, {part.rows, part.columns});
    if (part.dtype == core::DType::kF16) {
      for (core::Fp16& value : tensor.mutable_data<core::Fp16>()) {
        value = core::to_fp16(0.01f * random.normal());
      }
      continue;
    }
    for (std::int64_t i = 0; i < tensor.bytes(); ++i) {
      tensor.mutable_raw()[i] = static_cast<std::byte>(random.below(256));
    }
  }
  formats::validate(weight, "weight");
  return weight;
}

/// Two of each four weights at random places, of which some are zero all the same.
inline formats::PackedWeight random_two_of_four(const formats::Scheme& scheme, std::int64_t n,
                                                std::int64_t k, core::Random& random) {
  const std::int64_t group = formats::group_size(scheme, k);
  formats::PackedWeightBuilder builder(scheme, n, k);
  for (std::int64_t r = 0; r < n; ++r) {
    std::vector<std::uint8_t> zeros;
    for (std::int64_t g = 0; g < formats::groups_per_row(scheme, k); ++g) {
      const formats::GroupParameters parameters = random_parameters(scheme, r, random, builder);
      builder.set_group(r, g, parameters);
      zeros.push_back(static_cast<std::uint8_t>(parameters.zero));
    }
    std::vector<std::uint8_t> codes = random_codes(scheme, k, random);
    for (std::int64_t four = 0; four < k / formats::kFour; ++four) {
      const std::int64_t first = random.below(formats::kFour);
      const std::int64_t second = random.below(formats::kFour);
      for (std::int64_t i = 0; i < formats::kFour; ++i) {
        const std::int64_t input = four * formats::kFour + i;
        if (i != first && i != second) {
          codes[static_cast<std::size_t>(input)] = zeros[static_cast<std::size_t>(input / group)];
        }
      }
    }
    builder.set_codes(r, codes);
  }
  return builder.finish();
}

/// A weight with random codes, scales, zeros and books: every code occurs, neighbours differ.
inline formats::PackedWeight random_weight(const std::string& scheme_text, std::int64_t n,
                                           std::int64_t k, std::uint64_t seed) {
  core::Random random(seed);
  const formats::Scheme scheme = formats::parse_scheme(scheme_text);
  if (formats::has_minima(scheme) || formats::has_supers(scheme)) {
    return random_blocks(scheme, n, k, random);
  }
  if (formats::keeps_two_of_four(scheme)) {
    return random_two_of_four(scheme, n, k, random);
  }
  const std::int64_t groups = formats::groups_per_row(scheme, k);
  const bool has_tail = scheme.inputs.tail != 0;
  formats::PackedWeightBuilder builder(scheme, n, k);
  if (scheme.scale.type == formats::ScaleType::kE4m3) {
    builder.set_global(kNvGlobal);
  }
  for (std::int64_t r = 0; r < n; ++r) {
    builder.set_codes(r, random_codes(scheme, k, random));
    if (has_tail) {
      builder.set_group(r, groups, {0.00048828125f, 128});
    }
    for (std::int64_t g = 0; g < groups; ++g) {  // of the first of rows that share their scales
      builder.set_group(r, g, random_parameters(scheme, r, random, builder));
    }
    if (scheme.code.book == formats::Book::kPerRow ||
        (scheme.code.book == formats::Book::kPerMatrix && r == 0)) {
      builder.set_book(r, random_book(scheme, random));
    }
  }
  if (formats::stores_order(scheme)) {
    builder.set_permutation(random_order(k, random));
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
