#include "ops/cpu/packed/reference.h"

#include <algorithm>
#include <cmath>

#include "formats/scheme.h"
#include "ops/int8_table.h"

namespace nibble::ops::cpu {
namespace {

/// Minima of one output row, one for each of the weight's groups.
std::vector<float> row_minima(const formats::PackedWeight& weight, std::int64_t row) {
  std::vector<float> minima(
      static_cast<std::size_t>(formats::groups_per_row(weight.scheme, weight.k)));
  formats::unpack_minima(weight, row, minima);
  return minima;
}

/// Weights of one output row as the kernels see them, in double, without the minima.
std::vector<double> row_values(const formats::PackedWeight& weight, std::int64_t row) {
  const auto size = static_cast<std::size_t>(weight.k);
  const auto groups = static_cast<std::size_t>(formats::groups_per_row(weight.scheme, weight.k));
  const auto group = static_cast<std::size_t>(formats::group_size(weight.scheme, weight.k));
  std::vector<std::uint8_t> codes(size);
  std::vector<std::uint8_t> zeros(groups);
  std::vector<float> scales(groups);
  std::vector<double> values(size);
  formats::unpack_codes(weight, row, codes);
  formats::unpack_scales(weight, row, scales);
  if (formats::is_integer(weight.scheme)) {
    formats::unpack_zeros(weight, row, zeros);
    for (std::size_t k = 0; k < size; ++k) {
      values[k] = static_cast<double>(scales[k / group]) * (codes[k] - zeros[k / group]);
    }
    return values;
  }
  const Int8Table table = int8_table(formats::book_of(weight, row));
  for (std::size_t k = 0; k < size; ++k) {
    values[k] = static_cast<double>(scales[k / group]) * table.unit * table.entries[codes[k]];
  }
  return values;
}

void add_products(const formats::PackedWeight& weight, const QuantizedInput& input,
                  std::int64_t run_inputs, PackedReference& result) {
  const std::int64_t n = weight.n;
  for (std::int64_t row = 0; row < n; ++row) {
    const std::vector<double> w = row_values(weight, row);
    const std::vector<float> minima = row_minima(weight, row);
    const std::int64_t weight_group = formats::group_size(weight.scheme, weight.k);
    const std::int64_t digits = input.rows_per_token();
    for (std::int64_t x = 0; x < input.m() * digits; ++x) {
      const std::int64_t token = x / digits;
      const auto at = static_cast<std::size_t>(token * n + row);
      for (std::int64_t g = 0; g < input.groups(); ++g) {
        const std::int64_t begin = g * input.group();
        const std::int64_t end = std::min(begin + input.group(), weight.k);
        const std::int8_t* codes = input.codes(x) + g * input.group_stride() - begin;
        const std::int32_t* zeros = input.zeros(x);
        const int zero = zeros == nullptr ? 0 : zeros[g];
        const auto scale = static_cast<double>(input.scales(x)[g]);
        for (std::int64_t first = begin; first < end;) {
          const std::int64_t last = end - first < run_inputs ? end : first + run_inputs;
          double sum = 0.0;
          double correction = 0.0;
          double shift = 0.0;
          for (std::int64_t k = first; k < last; ++k) {
            sum += w[static_cast<std::size_t>(k)] * codes[k];
            correction += w[static_cast<std::size_t>(k)] * zero;
            shift +=
                static_cast<double>(minima[static_cast<std::size_t>(k / weight_group)]) * codes[k];
          }
          result.y[at] += (sum - correction + shift) * scale;
          result.magnitude[at] +=
              (std::fabs(sum) + std::fabs(correction) + std::fabs(shift)) * std::fabs(scale);
          first = last;
        }
      }
      for (const Outlier& outlier : input.outliers(token)) {
        const double product =
            w[static_cast<std::size_t>(outlier.input)] * static_cast<double>(outlier.value);
        result.y[at] += product;
        result.magnitude[at] += std::fabs(product);
      }
    }
  }
}

}  // namespace

PackedReference packed_linear_reference(const formats::PackedWeight& weight,
                                        const QuantizedInput& input, std::int64_t run_inputs) {
  PackedReference result;
  result.y.resize(static_cast<std::size_t>(input.m() * weight.n));
  result.magnitude.resize(result.y.size());
  add_products(formats::head_of(weight), input, run_inputs, result);
  if (input.tail() != nullptr) {
    add_products(formats::tail_of(weight), *input.tail(), run_inputs, result);
  }
  return result;
}

}  // namespace nibble::ops::cpu
