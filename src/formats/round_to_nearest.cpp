#include <cmath>

#include "core/error.h"
#include "formats/codebooks.h"
#include "formats/format.h"

namespace nibble::formats {
namespace {

using core::ErrorKind;
using core::require;

void require_finite_row(std::span<const float> row, std::int64_t number) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    require(std::isfinite(row[i]), ErrorKind::kInvalidModel,
            "row {}, input {} of the weight is {}; quantization needs finite weights", number, i,
            row[i]);
  }
}

void require_representable(std::span<const float> row, std::int64_t number, core::DType dtype) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    require(dtype != core::DType::kF16 || std::abs(row[i]) < 65520.0f, ErrorKind::kInvalidModel,
            "row {}, input {} of the weight is {}, too large for F16; use bf16", number, i, row[i]);
  }
}

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

PackedWeight to_dense(std::span<const float> w, std::int64_t n, std::int64_t k, core::DType dtype) {
  for (std::int64_t row = 0; row < n; ++row) {
    require_representable(w.subspan(index(row * k), index(k)), row, dtype);
  }
  return dense_weight(core::from_float32(w, {n, k}, dtype));
}

}  // namespace

PackedWeight round_to_nearest(std::span<const float> w, std::int64_t n, std::int64_t k,
                              const Scheme& scheme) {
  require(n >= 1 && k >= 1 && core::element_count({n, k}) == static_cast<std::int64_t>(w.size()),
          ErrorKind::kFailed, "{} values for a weight of shape [{}, {}]", w.size(), n, k);
  for (std::int64_t row = 0; row < n; ++row) {
    require_finite_row(w.subspan(index(row * k), index(k)), row);
  }
  if (scheme.kind == FormatKind::kDense) {
    validate(scheme);
    return to_dense(w, n, k, scheme.dense);
  }
  PackedWeightBuilder builder(scheme, n, k);
  const auto format = make_format(scheme);
  const std::int64_t inputs = group_size(scheme, k);
  std::vector<std::uint8_t> codes(index(k));
  for (std::int64_t row = 0; row < n; ++row) {
    const auto weights = w.subspan(index(row * k), index(k));
    for (std::int64_t begin = 0; begin < k; begin += inputs) {
      const std::int64_t count = std::min(inputs, k - begin);
      const auto group = weights.subspan(index(begin), index(count));
      const GroupParameters parameters = format->fit(group);
      format->encode_group(group, parameters, std::span(codes).subspan(index(begin), index(count)));
      builder.set_group(row, begin / inputs, parameters);
    }
    builder.set_codes(row, codes);
  }
  return builder.finish();
}

}  // namespace nibble::formats
