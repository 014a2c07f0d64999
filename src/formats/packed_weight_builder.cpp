#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "formats/bit_packing.h"
#include "formats/block_sparse.h"
#include "formats/format.h"
#include "formats/mx/e8m0.h"
#include "formats/nv/e4m3.h"
#include "formats/nv/nv_format.h"
#include "formats/row_unit.h"
#include "formats/runs.h"
#include "formats/stored_parts.h"
#include "formats/super_blocks.h"
#include "formats/two_of_four.h"

namespace nibble::formats {
namespace {

using core::ErrorKind;
using core::require;
using core::Tensor;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

void require_learned_book(const Scheme& scheme) {
  require(has_learned_book(scheme), ErrorKind::kFailed, "{} stores no code book", scheme);
}

// The byte of a power of two; throws for any other scale.
std::uint8_t to_e8m0(float scale) {
  int exponent = 0;
  const float fraction = std::frexp(scale, &exponent);  // in [0.5, 1) for positive scales
  exponent -= 1;
  require(fraction == 0.5f && exponent >= kMinMxExponent && exponent <= kMaxMxExponent,
          ErrorKind::kFailed, "scale {} is not a power of two that E8M0 and float32 can hold",
          scale);
  return static_cast<std::uint8_t>(exponent + kE8m0Bias);
}

// `what`: "scale".
core::Fp16 to_stored_fp16(float value, std::string_view what) {
  const core::Fp16 half = core::to_fp16(value);
  require(core::to_float(half) == value && std::isfinite(value), ErrorKind::kFailed,
          "{} {} is not an fp16 value; round it before codes are chosen with it", what, value);
  return half;
}

}  // namespace

PackedWeightBuilder::PackedWeightBuilder(const Scheme& wanted, std::int64_t n, std::int64_t k)
    : sparsity_(wanted.sparsity) {
  validate(wanted);
  require(has_codes(wanted), ErrorKind::kFailed,
          "a dense weight is made by dense_weight(), not from codes");
  require(n >= 1 && k >= 1, ErrorKind::kFailed, "a weight of shape [{}, {}]", n, k);
  require_shape(wanted, n, k);
  const Scheme scheme = full_scheme(wanted);
  weight_.scheme = scheme;
  weight_.n = n;
  weight_.k = k;
  for (const StoredPart& part : stored_parts(scheme, n, k)) {
    weight_.*part.tensor = Tensor::zeros(part.dtype, {part.rows, part.columns});
  }
  if (scheme.activation.stored_scale) {
    weight_ = with_input_scale(std::move(weight_), 1.0f);
  }
}

void PackedWeightBuilder::set_group(std::int64_t row, std::int64_t group,
                                    const GroupParameters& parameters) {
  const Scheme& scheme = weight_.scheme;
  const std::int64_t groups = groups_per_row(scheme, weight_.k);
  if (scheme.inputs.tail != 0 && group == groups) {
    set_tail_scale(row, parameters);
    return;
  }
  require(row >= 0 && row < weight_.n && group >= 0 && group < groups, ErrorKind::kFailed,
          "group {} of row {} in a weight of {} rows and {} groups", group, row, weight_.n, groups);
  set_scale(row, group, parameters.scale);
  if (has_minima(scheme)) {
    set_minimum(row, group, parameters.minimum);
  } else if (is_integer(scheme)) {
    set_zero(row, group, parameters.zero);
  }
}

void PackedWeightBuilder::set_minimum(std::int64_t row, std::int64_t group, float minimum) {
  if (has_supers(weight_.scheme)) {
    set_multiple(row, group, minimum, weight_.minima, weight_.min_supers);
    return;
  }
  const std::int64_t groups = weight_.minima.dim(1);
  weight_.minima.mutable_data<core::Fp16>()[index(row * groups + group)] =
      to_stored_fp16(minimum, "minimum");
}

void PackedWeightBuilder::set_multiple(std::int64_t row, std::int64_t group, float value,
                                       Tensor& multiples, const Tensor& supers) {
  const std::int64_t super = group * weight_.scheme.scale.group / kSuperGroup;
  const float unit = core::to_float(supers.data<core::Fp16>()[index(row * supers.dim(1) + super)]);
  const double multiple = unit == 0 ? 0.0 : std::nearbyint(static_cast<double>(value) / unit);
  require(multiple >= -128 && multiple <= 127 && unit * static_cast<float>(multiple) == value,
          ErrorKind::kFailed, "{} is no multiple of the {} that group {} of row {} shares", value,
          unit, group, row);
  multiples.mutable_data<std::int8_t>()[index(row * multiples.dim(1) + group)] =
      static_cast<std::int8_t>(multiple);
}

void PackedWeightBuilder::set_supers(std::int64_t row, std::span<const Super> supers) {
  require(has_supers(weight_.scheme) && row >= 0 && row < weight_.n &&
              std::cmp_equal(supers.size(), weight_.supers.dim(1)),
          ErrorKind::kFailed, "{} supers for row {} of {}", supers.size(), row, weight_.scheme);
  for (std::size_t i = 0; i < supers.size(); ++i) {
    const std::size_t at = index(row * weight_.supers.dim(1)) + i;
    weight_.supers.mutable_data<core::Fp16>()[at] = supers[i].scale;
    if (has_minima(weight_.scheme)) {
      weight_.min_supers.mutable_data<core::Fp16>()[at] = supers[i].minimum;
    }
  }
}

void PackedWeightBuilder::set_scale(std::int64_t row, std::int64_t group, float scale) {
  const std::int64_t rows = rows_per_scale(weight_.scheme, weight_.n);
  if (row % rows != 0) {
    return;  // it is that of the first of these rows
  }
  const std::size_t at = index(row / rows * groups_per_row(weight_.scheme, weight_.k) + group);
  switch (weight_.scheme.scale.type) {
    case ScaleType::kF16:
      weight_.scales.mutable_data<core::Fp16>()[at] = to_stored_fp16(scale, "scale");
      return;
    case ScaleType::kUnits:
      set_units(row, group, scale);
      return;
    case ScaleType::kMultiples:
      set_multiple(row, group, scale, weight_.scales, weight_.supers);
      return;
    case ScaleType::kE8m0:
      weight_.scales.mutable_data<std::uint8_t>()[at] = to_e8m0(scale);
      return;
    case ScaleType::kE4m3:
      set_e4m3(row, group, scale);
      return;
    case ScaleType::kNone:
      return;
  }
}

void PackedWeightBuilder::set_zero(std::int64_t row, std::int64_t group, int zero) {
  const Scheme& scheme = weight_.scheme;
  const int middle = 1 << (scheme.code.bits - 1);
  require(!has_zeros(scheme) ? zero == middle : zero >= 0 && zero < 2 * middle, ErrorKind::kFailed,
          "zero point {} of {}", zero, scheme);
  if (has_zeros(scheme)) {
    const std::int64_t bytes = weight_.zeros.dim(1);
    set_code(weight_.zeros.mutable_data<std::uint8_t>().subspan(index(row * bytes), index(bytes)),
             scheme.code.bits, group, static_cast<std::uint8_t>(zero));
  }
}

void PackedWeightBuilder::set_global(float global) {
  require(weight_.scheme.scale.type == ScaleType::kE4m3 && global >= kMinNvGlobal &&
              global <= kMaxNvGlobal,
          ErrorKind::kFailed, "global scale {} for {}", global, weight_.scheme);
  weight_.global.mutable_data<float>()[0] = global;
}

void PackedWeightBuilder::set_e4m3(std::int64_t row, std::int64_t group, float scale) {
  const float global = weight_.global.data<float>()[0];
  require(global != 0, ErrorKind::kFailed, "{} has no global scale yet", weight_.scheme);
  const bool positive = scale >= 0;  // false for NaN
  const std::uint8_t byte =
      positive ? nearest_e4m3(static_cast<double>(scale) / static_cast<double>(global)) : 0;
  require(positive && e4m3_to_float(byte) * global == scale, ErrorKind::kFailed,
          "scale {} is not an E4M3 value times the global scale {}", scale, global);
  const std::int64_t groups = weight_.scales.dim(1);
  weight_.scales.mutable_data<std::uint8_t>()[index(row * groups + group)] = byte;
}

void PackedWeightBuilder::set_unit(std::int64_t row, std::uint8_t unit) {
  require(weight_.scheme.scale.type == ScaleType::kUnits && row >= 0 && row < weight_.n &&
              unit >= 1 && unit <= kLargestUnit,
          ErrorKind::kFailed, "unit {} for row {} of {}", unit, row, weight_.scheme);
  weight_.units.mutable_data<std::uint8_t>()[index(row)] = unit;
}

void PackedWeightBuilder::set_units(std::int64_t row, std::int64_t group, float scale) {
  const std::uint8_t byte = weight_.units.data<std::uint8_t>()[index(row)];
  require(byte != 0, ErrorKind::kFailed, "row {} has no unit yet", row);
  const float unit = unit_value(byte);
  const std::uint8_t units = units_of(scale, unit);
  require(scale_of_units(units, unit) == scale, ErrorKind::kFailed,
          "scale {} is not 1 to 63 times the unit {} of row {}", scale, unit, row);
  const std::int64_t bytes = weight_.scales.dim(1);
  set_code(weight_.scales.mutable_data<std::uint8_t>().subspan(index(row * bytes), index(bytes)),
           kUnitScaleBits, group, units);
}

void PackedWeightBuilder::set_tail_scale(std::int64_t row, const GroupParameters& parameters) {
  constexpr int kMiddle = 128;
  require(row >= 0 && row < weight_.n && parameters.zero == kMiddle, ErrorKind::kFailed,
          "zero point {} of the tail of row {}", parameters.zero, row);
  weight_.tail_scales.mutable_data<core::Fp16>()[index(row)] =
      to_stored_fp16(parameters.scale, "scale");
}

void PackedWeightBuilder::set_permutation(std::span<const std::int32_t> permutation) {
  require(stores_order(weight_.scheme) && std::cmp_equal(permutation.size(), weight_.k),
          ErrorKind::kFailed, "an order of {} inputs for {} with {} inputs", permutation.size(),
          weight_.scheme, weight_.k);
  std::copy(permutation.begin(), permutation.end(),
            weight_.permutation.mutable_data<std::int32_t>().begin());
}

void PackedWeightBuilder::set_codes(std::int64_t row, std::span<const std::uint8_t> codes) {
  require(row >= 0 && row < weight_.n && std::cmp_equal(codes.size(), weight_.k),
          ErrorKind::kFailed, "{} codes for row {} of a weight of shape [{}, {}]", codes.size(),
          row, weight_.n, weight_.k);
  const auto head = index(head_inputs(weight_.scheme, weight_.k));
  set_head_codes(row, codes.first(head));
  if (weight_.scheme.inputs.tail != 0) {
    std::copy(codes.begin() + static_cast<std::ptrdiff_t>(head), codes.end(),
              weight_.tail_codes.mutable_data<std::uint8_t>().begin() +
                  static_cast<std::ptrdiff_t>(row * weight_.scheme.inputs.tail));
  }
}

void PackedWeightBuilder::set_head_codes(std::int64_t row, std::span<const std::uint8_t> codes) {
  const int bits = weight_.scheme.code.bits;
  require(runs_of(weight_.scheme) == nullptr, ErrorKind::kFailed,
          "weights of {} are not set one by one", weight_.scheme);
  const auto worst = *std::max_element(codes.begin(), codes.end());
  require(worst >> bits == 0, ErrorKind::kFailed, "code {} in row {} of {}", worst, row,
          weight_.scheme);
  const std::int64_t bytes = weight_.codes.dim(1);
  pack(codes, bits,
       weight_.codes.mutable_data<std::uint8_t>().subspan(index(row * bytes), index(bytes)));
}

void PackedWeightBuilder::set_book(std::int64_t row, std::span<const float> values) {
  require_learned_book(weight_.scheme);
  const std::int64_t size = book_size(weight_.scheme);
  require(row >= 0 && row < weight_.book.dim(0) && std::cmp_equal(values.size(), size),
          ErrorKind::kFailed, "{} values for code book {} of {}", values.size(), row,
          weight_.book.dim(0));
  std::transform(values.begin(), values.end(),
                 weight_.book.mutable_data<core::Fp16>().begin() + row * size,
                 [](float value) { return to_stored_fp16(value, "entry of a code book"); });
}

PackedWeight PackedWeightBuilder::finish() {
  validate(weight_, "weight");
  switch (sparsity_) {
    case Sparsity::kNone:
      break;
    case Sparsity::kGroups:
    case Sparsity::kTileGroups: {
      Scheme scheme = weight_.scheme;
      scheme.sparsity = sparsity_;
      return to_block_sparse(weight_, scheme);
    }
    case Sparsity::kTwoOfFour:
      return to_two_of_four(weight_);
  }
  return std::move(weight_);
}

}  // namespace nibble::formats
