#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "compress/search/group_search.h"
#include "formats/format.h"

namespace nibble::compress {

/// GroupSearch as its comment says it, one descent after another and one sum after another, with
/// the format's own codes and values: the reference of what GroupSearch finds, bit for bit.
class PlainSearch {
 public:
  PlainSearch(const formats::Format& format, std::span<const float> weights,
              std::span<const float> importance)
      : format_(format),
        weights_(weights),
        importance_(importance),
        codes_(weights.size()),
        values_(weights.size()) {}

  GroupFit search(int steps, const formats::GroupParameters& known) {
    const formats::Scheme& scheme = format_.scheme();
    const bool is_nv = scheme.scale.type == formats::ScaleType::kE4m3;
    const bool is_iq4 = scheme.code.book == formats::Book::kIq4;
    const bool is_signed =
        formats::has_learned_book(scheme) || is_iq4 ||
        (formats::is_integer(scheme) && !has_offsets() && formats::value_bits(scheme) < 8);
    best_ = {known, std::numeric_limits<double>::infinity()};
    descend(known);
    descend(format_.fit(weights_));
    const auto [low, high] = std::minmax_element(weights_.begin(), weights_.end());
    for (int step = 0; step < steps && best_.loss > 0; ++step) {
      const double widest = is_nv ? 1.5 : 1.25;
      const double factor = widest - (widest - 0.4) * step / std::max(1, steps - 1);
      const std::array<float, 2> range = {static_cast<float>(*low * factor),
                                          static_cast<float>(*high * factor)};
      const formats::GroupParameters start =
          is_nv ? formats::GroupParameters{format_.stored_scale(
                      std::max(std::abs(range[0]), std::abs(range[1])) / 6.0)}
                : format_.fit(range);
      descend(start);
      if (is_signed) {
        descend({-start.scale, start.zero});
      }
    }
    return best_;
  }

  double loss(const formats::GroupParameters& parameters) {
    format_.encode_group(weights_, parameters, codes_);
    format_.decode_group(codes_, parameters, values_);
    return sum([&](std::size_t i) {
      const double error = static_cast<double>(weights_[i]) - values_[i];
      return importance_[i] * error * error;
    });
  }

 private:
  bool has_offsets() const {
    return formats::has_zeros(format_.scheme()) || formats::has_minima(format_.scheme());
  }

  template <typename Term>
  double sum(Term term) const {
    std::array<double, 8> sums{};
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      sums[i % 8] += term(i);
    }
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) +
           ((sums[2] + sums[6]) + (sums[3] + sums[7]));
  }

  formats::GroupParameters refit(const formats::GroupParameters& parameters) {
    formats::GroupParameters result = parameters;
    const auto h = [&](std::size_t i) { return static_cast<double>(importance_[i]); };
    if (has_offsets()) {
      const double total = sum(h);
      const double code = sum([&](std::size_t i) { return h(i) * codes_[i]; }) / total;
      const double mean = sum([&](std::size_t i) { return h(i) * weights_[i]; }) / total;
      const double variance =
          sum([&](std::size_t i) { return h(i) * (codes_[i] - code) * (codes_[i] - code); });
      const double covariance =
          sum([&](std::size_t i) { return h(i) * (codes_[i] - code) * (weights_[i] - mean); });
      if (!(variance > 0) || !(covariance > 0)) {
        return parameters;
      }
      if (formats::has_minima(format_.scheme())) {
        result.minimum = format_.stored_minimum(mean - code * covariance / variance);
      } else {
        const double largest = (1 << format_.scheme().code.bits) - 1;
        const double zero = code - mean * variance / covariance;
        result.zero = static_cast<int>(std::clamp(std::nearbyint(zero), 0.0, largest));
      }
    }
    format_.decode_group(codes_, {1.0f, result.zero}, values_);
    const double cross = sum([&](std::size_t i) {
      return h(i) * (static_cast<double>(weights_[i]) - result.minimum) * values_[i];
    });
    const double square = sum([&](std::size_t i) { return h(i) * values_[i] * values_[i]; });
    const double scale = cross / square;
    if (!(square > 0) || !std::isfinite(scale) || scale * parameters.scale <= 0) {
      return parameters;
    }
    result.scale = format_.stored_scale(scale);
    return result;
  }

  void descend(formats::GroupParameters parameters) {
    constexpr int kRefits = 8;
    double last = std::numeric_limits<double>::infinity();
    for (int round = 0; round <= kRefits; ++round) {
      const double now = loss(parameters);
      if (now < best_.loss) {
        best_ = {parameters, now};
      }
      if (now >= last) {
        return;
      }
      last = now;
      parameters = refit(parameters);
    }
  }

  const formats::Format& format_;
  std::span<const float> weights_;
  std::span<const float> importance_;
  std::vector<std::uint8_t> codes_;
  std::vector<float> values_;
  GroupFit best_;
};

}  // namespace nibble::compress
