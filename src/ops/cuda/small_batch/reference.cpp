#include "ops/cuda/small_batch/reference.h"

#include <algorithm>
#include <cmath>

#include "ops/cuda/packed/book_table.h"
#include "ops/cuda/packed/unit_writer.h"

namespace nibble::ops::cuda {
namespace {

constexpr std::int32_t kBase = 255;

// What a code stands for before its scale: an integer.
std::vector<double> integer_values(const formats::PackedWeight& weight, std::int64_t row,
                                   double& unit) {
  const auto k = static_cast<std::size_t>(weight.k);
  const auto group = static_cast<std::size_t>(group_size(weight.scheme, weight.k));
  std::vector<std::uint8_t> codes(k);
  unpack_codes(weight, row, codes);
  std::vector<double> values(k);
  unit = 1.0;
  if (formats::is_integer(weight.scheme)) {
    std::vector<std::uint8_t> zeros(
        static_cast<std::size_t>(groups_per_row(weight.scheme, weight.k)));
    unpack_zeros(weight, row, zeros);
    if (has_minima(weight.scheme)) {  // block_weight() puts the middle of codes into the minima
      const int middle = 1 << (weight.scheme.code.bits - 1);
      std::fill(zeros.begin(), zeros.end(), static_cast<std::uint8_t>(middle));
    }
    for (std::size_t i = 0; i < k; ++i) {
      values[i] = codes[i] - zeros[i / group];
    }
    return values;
  }
  const Int8Table table = book_entries(book_of(weight, row));
  unit = table.unit;
  for (std::size_t i = 0; i < k; ++i) {
    values[i] = table.entries[codes[i]];
  }
  return values;
}

}  // namespace

std::vector<std::int8_t> IntegerActivations::in_order(bool lanes) const {
  const std::int64_t stride = unit_grid(1, k).blocks * kUnitInputs;
  std::vector<std::int8_t> out(static_cast<std::size_t>(m * digits * stride), 0);
  for (std::int64_t token = 0; token < m; ++token) {
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int32_t code = codes[static_cast<std::size_t>(token * k + i)];
      const std::int64_t in_block = i % kUnitInputs;
      const std::int64_t h = in_block / 32;
      const std::int64_t t = in_block % 32 / 8;
      const std::int64_t e = in_block % 8 / 4;
      constexpr int kPlace[] = {0, 2, 1, 3};
      const std::int64_t at = i - in_block +
                              (lanes ? 32 * t + 8 * h + 4 * e : 32 * h + 16 * e + 4 * t) +
                              kPlace[static_cast<std::size_t>(i % 4)];
      const auto first = static_cast<std::int32_t>(std::lround(static_cast<double>(code) / kBase));
      if (digits == 2) {
        out[static_cast<std::size_t>((2 * token) * stride + at)] = static_cast<std::int8_t>(first);
        out[static_cast<std::size_t>((2 * token + 1) * stride + at)] =
            static_cast<std::int8_t>(code - kBase * first);
      } else {
        out[static_cast<std::size_t>(token * stride + at)] = static_cast<std::int8_t>(code);
      }
    }
  }
  return out;
}

std::vector<double> multiplied_row(const formats::PackedWeight& weight, std::int64_t n) {
  const auto group = static_cast<std::size_t>(group_size(weight.scheme, weight.k));
  const auto groups = static_cast<std::size_t>(groups_per_row(weight.scheme, weight.k));
  double unit = 1.0;
  std::vector<double> values = integer_values(weight, n, unit);
  std::vector<float> scales(groups);
  std::vector<float> shifts(groups);
  unpack_scales(weight, n, scales);
  unpack_minima(weight, n, shifts);
  for (std::size_t k = 0; k < values.size(); ++k) {
    values[k] = values[k] * unit * static_cast<double>(scales[k / group]) +
                static_cast<double>(shifts[k / group]);
  }
  return values;
}

std::vector<double> reference(const formats::PackedWeight& weight, const IntegerActivations& x,
                              std::span<const float> bias, std::vector<double>& magnitude) {
  const std::int64_t steps = unit_grid(weight.n, weight.k).blocks * kUnitInputs / x.step;
  const std::int64_t group = group_size(weight.scheme, weight.k);
  std::vector<double> y(static_cast<std::size_t>(x.m * weight.n));
  magnitude.assign(y.size(), 0.0);
  std::vector<float> scales(static_cast<std::size_t>(groups_per_row(weight.scheme, weight.k)));
  for (std::int64_t n = 0; n < weight.n; ++n) {
    double unit = 1.0;
    const std::vector<double> values = integer_values(weight, n, unit);
    unpack_scales(weight, n, scales);
    for (std::int64_t token = 0; token < x.m; ++token) {
      const auto at = static_cast<std::size_t>(token * weight.n + n);
      double sum = 0.0;
      for (std::int64_t k = 0; k < weight.k; ++k) {
        const double scale = static_cast<double>(scales[static_cast<std::size_t>(k / group)]) *
                             x.scales[static_cast<std::size_t>(token * steps + k / x.step)];
        const double term = scale * values[static_cast<std::size_t>(k)] *
                            x.codes[static_cast<std::size_t>(token * weight.k + k)];
        sum += term;
        magnitude[at] += std::fabs(term * unit);
      }
      y[at] = sum * unit + (bias.empty() ? 0.0 : bias[static_cast<std::size_t>(n)]);
      magnitude[at] += bias.empty() ? 0.0 : std::fabs(bias[static_cast<std::size_t>(n)]);
    }
  }
  return y;
}

}  // namespace nibble::ops::cuda
