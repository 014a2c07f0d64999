#include "formats/lut4/lut4_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "formats/finite.h"
#include "formats/fp16_scale.h"

namespace nibble::formats {
namespace {

constexpr std::size_t kSize = 16;
constexpr std::size_t kLanes = 16;  // weights of a group that are encoded together

class Lut4Format final : public Format {
 public:
  Lut4Format(const Scheme& scheme, std::span<const float> book) : Format(scheme) {
    // A shorter book is filled up with its last value, whose later codes no weight gets.
    std::fill(std::copy(book.begin(), book.end(), book_.begin()), book_.end(), book.back());
    for (const float value : book_) {
      largest_ = std::max(largest_, std::abs(static_cast<double>(value)));
    }
    std::iota(by_value_.begin(), by_value_.end(), std::uint8_t{0});
    std::stable_sort(by_value_.begin(), by_value_.end(),
                     [this](std::uint8_t a, std::uint8_t b) { return book_[a] < book_[b]; });
    for (std::size_t i = 0; i + 1 < kSize; ++i) {
      // The sum of two float32 values of like size is exact in float64.
      midpoints_[i] = (static_cast<double>(book_[by_value_[i]]) + book_[by_value_[i + 1]]) / 2;
    }
    merge_equal_entries();
  }

  GroupParameters fit(std::span<const float> group) const override {
    require_finite(group);
    float extreme = 0;
    for (const float weight : group) {
      extreme = std::max(extreme, std::abs(weight));
    }
    return {stored_scale(static_cast<double>(extreme) / largest_), 0};
  }

  std::uint8_t encode(float weight, const GroupParameters& parameters) const override {
    return nearest(weight, parameters.scale);
  }

  void encode_group(std::span<const float> weights, const GroupParameters& parameters,
                    std::span<std::uint8_t> codes) const override {
    const float sign = parameters.scale < 0 ? -1.0f : 1.0f;
    const auto limits = limits_for(std::abs(parameters.scale));
    for (std::size_t begin = 0; begin < weights.size(); begin += kLanes) {
      const std::size_t count = std::min(kLanes, weights.size() - begin);
      std::array<float, kLanes> values{};
      for (std::size_t lane = 0; lane < count; ++lane) {
        values[lane] = sign * weights[begin + lane];
      }
      std::array<std::int32_t, kLanes> ranks{};
      for (const float limit : limits) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          ranks[lane] += values[lane] > limit ? 1 : 0;
        }
      }
      for (std::size_t lane = 0; lane < count; ++lane) {
        codes[begin + lane] = by_value_[static_cast<std::size_t>(ranks[lane])];
      }
    }
  }

  float decode(std::uint8_t code, const GroupParameters& parameters) const override {
    return parameters.scale * book_[code & 15];
  }

  void decode_group(std::span<const std::uint8_t> codes, const GroupParameters& parameters,
                    std::span<float> values) const override {
    for (std::size_t i = 0; i < codes.size(); ++i) {
      values[i] = parameters.scale * book_[codes[i] & 15];
    }
  }

  float stored_scale(double scale) const override { return fitted_scale(scheme(), scale); }

 private:
  // Every rank of a run of equal entries leads to the first code of the run.
  void merge_equal_entries() {
    for (std::size_t i = 1; i < kSize; ++i) {
      if (book_[by_value_[i]] == book_[by_value_[i - 1]]) {
        by_value_[i] = by_value_[i - 1];
      }
    }
  }

  // The largest float32 weight of each rank but the last: a weight is above it exactly when its
  // quotient by the scale is above the midpoint. The product of a midpoint and an fp16 scale is
  // exact in float64.
  std::array<float, kSize - 1> limits_for(float scale) const {
    std::array<float, kSize - 1> limits{};
    for (std::size_t i = 0; i < limits.size(); ++i) {
      const double limit = midpoints_[i] * scale;
      limits[i] = static_cast<float>(limit);
      if (static_cast<double>(limits[i]) > limit) {
        limits[i] = std::nextafter(limits[i], -std::numeric_limits<float>::infinity());
      }
    }
    return limits;
  }

  // The rank of the nearest entry is the number of midpoints below the value.
  std::uint8_t nearest(float weight, float scale) const {
    const double value = static_cast<double>(weight) / static_cast<double>(scale);
    std::size_t rank = 0;
    for (const double midpoint : midpoints_) {
      rank += value > midpoint ? 1 : 0;
    }
    return by_value_[rank];
  }

  std::array<float, kSize> book_{};
  std::array<std::uint8_t, kSize> by_value_{};  // codes in ascending order of their values
  std::array<double, kSize - 1> midpoints_{};   // between neighbours of that order
  double largest_ = 0;
};

}  // namespace

std::unique_ptr<const Format> make_lut4_format(const Scheme& scheme, std::span<const float> book) {
  core::require(std::cmp_equal(book.size(), book_size(scheme)), core::ErrorKind::kUsage,
                "{} needs a code book of {} values, got {}", scheme, book_size(scheme),
                book.size());
  bool has_value = false;
  for (std::size_t i = 0; i < book.size(); ++i) {
    core::require(std::isfinite(book[i]), core::ErrorKind::kUsage, "code book entry {} is {}", i,
                  book[i]);
    has_value = has_value || book[i] != 0;
  }
  core::require(has_value, core::ErrorKind::kUsage, "all entries of the code book are zero");
  return std::make_unique<Lut4Format>(scheme, book);
}

}  // namespace nibble::formats
