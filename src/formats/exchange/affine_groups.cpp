#include "formats/exchange/affine_groups.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/float16.h"
#include "formats/bit_packing.h"
#include "formats/exchange/row_ranges.h"
#include "formats/exchange/stored_scales.h"
#include "formats/stored_parts.h"

namespace nibble::formats::exchange {
namespace {

constexpr float kSmallestScale = 0x1p-24f;  // of float16

float rounded(float value) {
  return core::to_float(core::to_fp16(value));
}

// A group on the grid.
struct HeldGroup {
  float scale = 0;
  int zero = 0;
};

// Sums over the weights of a row.
struct Squares {
  double change = 0;
  double weights = 0;
};

class GroupHolder {
 public:
  GroupHolder(const AffineGroups& affine, int bits, std::string_view layer)
      : affine_(affine), factor_(1 << (bits - affine.bits)), layer_(layer) {
    grid_.bits = bits;
    grid_.n = affine.n;
    grid_.k = affine.k;
    grid_.group = affine.group;
    grid_.codes = affine.codes;
    grid_.scales.resize(affine.scales.size());
    grid_.zeros.resize(affine.scales.size());
  }

  NearestGrid run() {
    std::vector<Squares> rows(static_cast<std::size_t>(affine_.n));
    const std::int64_t groups = affine_.k / affine_.group;
    for_row_ranges(affine_.n, affine_.k, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) {
        for (std::int64_t group = 0; group < groups; ++group) {
          hold(static_cast<std::size_t>(row * groups + group), rows[static_cast<std::size_t>(row)]);
        }
      }
    });
    Squares all;
    for (const Squares& row : rows) {
      all.change += row.change;
      all.weights += row.weights;
    }
    return {std::move(grid_), all.weights > 0 ? std::sqrt(all.change / all.weights) : 0.0};
  }

 private:
  void hold(std::size_t at, Squares& squares) {
    const float scale = affine_.scales[at];
    const float bias = affine_.biases[at];
    core::require(std::isfinite(rounded(scale)) && std::isfinite(rounded(bias)),
                  core::ErrorKind::kInvalidModel,
                  "{}: a group has scale {} and bias {}, of which one is not finite in float16",
                  core::printable(layer_), scale, bias);
    const auto size = static_cast<std::size_t>(affine_.group);
    const auto before = std::span(affine_.codes).subspan(at * size, size);
    const auto after = std::span(grid_.codes).subspan(at * size, size);
    for (std::size_t i = 0; i < size; ++i) {
      after[i] = static_cast<std::uint8_t>(before[i] * factor_);
    }
    const bool constant =
        std::all_of(before.begin(), before.end(), [&](auto code) { return code == before[0]; });
    const HeldGroup held = constant && !holds_zero(scale, bias)
                               ? hold_constant(scale * static_cast<float>(before[0]) + bias, after)
                               : nearest(scale, bias);
    grid_.scales[at] = held.scale;
    grid_.zeros[at] = static_cast<std::uint8_t>(held.zero);
    for (std::size_t i = 0; i < size; ++i) {
      const double weight = static_cast<double>(scale) * before[i] + static_cast<double>(bias);
      const double change = static_cast<double>(held.scale) * (after[i] - held.zero) - weight;
      squares.change += change * change;
      squares.weights += weight * weight;
    }
  }

  // Whether 0 lies within the range of codes, as in all groups of weights of both signs.
  bool holds_zero(float scale, float bias) const {
    const double zero = scale == 0 ? -1.0 : -static_cast<double>(bias) / static_cast<double>(scale);
    return zero > -0.5 && zero < (1 << affine_.bits) - 0.5;
  }

  HeldGroup nearest(float scale, float bias) const {
    const float stored = rounded(scale / static_cast<float>(factor_));
    if (stored == 0) {
      return {std::copysign(kSmallestScale, scale), 0};
    }
    const double zero = -static_cast<double>(bias) / static_cast<double>(stored);
    const double largest = (1 << grid_.bits) - 1;
    return {stored, static_cast<int>(std::lround(std::clamp(zero, 0.0, largest)))};
  }

  // All weights of the group are one value: code 1 of zero point 0.
  static HeldGroup hold_constant(float value, std::span<std::uint8_t> codes) {
    const float scale = rounded(value);
    std::fill(codes.begin(), codes.end(), static_cast<std::uint8_t>(scale == 0 ? 0 : 1));
    return {scale == 0 ? kSmallestScale : scale, 0};
  }

  const AffineGroups& affine_;
  int factor_;
  std::string_view layer_;
  IntegerGrid grid_;
};

// What rounding the offset of a group to float16 changes, relative to the largest weight that the
// group can hold.
double change_of_minimum(const AffineGroups& affine, std::size_t at, std::string_view layer) {
  const double bias = affine.biases[at];
  const double stored = rounded(affine.biases[at]);
  core::require(std::isfinite(stored), core::ErrorKind::kInvalidModel,
                "{}: a group has a bias of {}, which is not finite in float16",
                core::printable(layer), affine.biases[at]);
  const double end = bias + static_cast<double>(affine.scales[at]) * ((1 << affine.bits) - 1);
  const double largest = std::max(std::abs(bias), std::abs(end));
  return stored == bias ? 0.0 : std::abs(stored - bias) / largest;
}

}  // namespace

NearestGrid nearest_grid(const AffineGroups& affine, int bits, std::string_view layer) {
  return GroupHolder(affine, bits, layer).run();
}

ReadLayer pack_minima(const AffineGroups& affine, int bits, std::string_view layer) {
  ReadLayer result;
  PackedWeight& weight = result.weight;
  weight.scheme.code = {.type = &kIntegerCodes, .bits = bits};
  weight.scheme.scale = {.type = ScaleType::kF16, .group = affine.group};
  weight.scheme.zero = Zero::kReal;
  weight.n = affine.n;
  weight.k = affine.k;
  require_shape(weight.scheme, weight.n, weight.k);
  for (const StoredPart& part : stored_parts(weight.scheme, weight.n, weight.k)) {
    weight.*part.tensor = core::Tensor::zeros(part.dtype, {part.rows, part.columns});
  }
  StoredScales rounded_scales(layer);
  const auto scales = weight.scales.mutable_data<core::Fp16>();
  const auto minima = weight.minima.mutable_data<core::Fp16>();
  for (std::size_t at = 0; at < affine.scales.size(); ++at) {
    scales[at] = core::to_fp16(rounded_scales.round(affine.scales[at]));
    minima[at] = core::to_fp16(affine.biases[at]);
    result.scale_error = std::max(result.scale_error, change_of_minimum(affine, at, layer));
  }
  result.scale_error = std::max(result.scale_error, rounded_scales.error());
  const auto k = static_cast<std::size_t>(affine.k);
  const auto row_bytes = static_cast<std::size_t>(packed_bytes(affine.k, bits));
  const auto bytes = weight.codes.mutable_data<std::uint8_t>();
  for_row_ranges(affine.n, affine.k, [&](std::int64_t first, std::int64_t last) {
    for (auto row = static_cast<std::size_t>(first); std::cmp_less(row, last); ++row) {
      pack(std::span(affine.codes).subspan(row * k, k), bits,
           bytes.subspan(row * row_bytes, row_bytes));
    }
  });
  validate(weight, layer);
  return result;
}

}  // namespace nibble::formats::exchange
