#include "formats/lut4/lut4_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "formats/finite.h"
#include "formats/fp16_scale.h"
#include "formats/lut4/book_order.h"

namespace nibble::formats {
namespace {

constexpr std::size_t kSize = BookOrder::kSize;
constexpr std::size_t kLanes = 16;  // weights of a group that are encoded together

// A shorter book is filled up with its last value, whose later codes no weight gets.
std::array<float, kSize> filled_up(std::span<const float> book) {
  std::array<float, kSize> filled{};
  std::fill(std::copy(book.begin(), book.end(), filled.begin()), filled.end(), book.back());
  return filled;
}

class Lut4Format final : public Format {
 public:
  Lut4Format(const Scheme& scheme, std::span<const float> book)
      : Format(scheme), book_(filled_up(book)), order_(book_) {
    for (const float value : book_) {
      largest_ = std::max(largest_, std::abs(static_cast<double>(value)));
    }
    const bool mirrored =
        std::find(book_.begin(), book_.end(), static_cast<float>(largest_)) != book_.end();
    reaches_below_ = !has_learned_book(scheme) && !mirrored;
  }

  GroupParameters fit(std::span<const float> group) const override {
    require_finite(group);
    float extreme = 0;  // the first of equals
    for (const float weight : group) {
      extreme = std::abs(weight) > std::abs(extreme) ? weight : extreme;
    }
    const double scale = static_cast<double>(extreme) / largest_;
    return {stored_scale(reaches_below_ ? -scale : std::abs(scale)), 0};
  }

  std::uint8_t encode(float weight, const GroupParameters& parameters) const override {
    return nearest(weight, parameters.scale);
  }

  void encode_group(std::span<const float> weights, const GroupParameters& parameters,
                    std::span<std::uint8_t> codes) const override {
    const float sign = parameters.scale < 0 ? -1.0f : 1.0f;
    BookOrder::Limits limits;
    order_.limits(std::abs(parameters.scale), limits);
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
        codes[begin + lane] = order_.code(static_cast<std::size_t>(ranks[lane]));
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
  // The rank of the nearest entry is the number of midpoints below the value.
  std::uint8_t nearest(float weight, float scale) const {
    const double value = static_cast<double>(weight) / static_cast<double>(scale);
    std::size_t rank = 0;
    for (const double midpoint : order_.midpoints()) {
      rank += value > midpoint ? 1 : 0;
    }
    return order_.code(rank);
  }

  std::array<float, kSize> book_;
  BookOrder order_;
  double largest_ = 0;
  bool reaches_below_ = false;  // the value of that magnitude is negative, and has no opposite
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
