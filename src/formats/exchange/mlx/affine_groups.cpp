#include "formats/exchange/mlx/affine_groups.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/float16.h"
#include "formats/exchange/row_ranges.h"

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

}  // namespace

NearestGrid nearest_grid(const AffineGroups& affine, int bits, std::string_view layer) {
  return GroupHolder(affine, bits, layer).run();
}

}  // namespace nibble::formats::exchange
