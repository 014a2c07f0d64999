#include "compress/search/group_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace nibble::compress {
namespace {

using formats::Format;
using formats::GroupParameters;
using formats::Scheme;

constexpr double kWidest = 1.25;
constexpr double kWidestNv = 1.5;  // largest weights become 4 (four-over-six)
constexpr double kNarrowest = 0.4;
constexpr int kRefits = 8;  // at the most from one start

// Whether w = scale * code + offset: lines that need not go through a code that stands for 0.
bool has_offsets(const Scheme& scheme) {
  return formats::has_zeros(scheme) || formats::has_minima(scheme);
}

// A scale of the other sign makes other values: one end of the codes reaches further, or the book
// is not its own mirror image. Fixed books and INT8 keep their scales positive.
bool has_signed_scales(const Scheme& scheme) {
  const bool longer_below = scheme.code.bits < 8 || formats::has_supers(scheme);
  return (formats::is_integer(scheme) && !has_offsets(scheme) && longer_below) ||
         formats::has_learned_book(scheme);
}

// Weighted sums over the elements of a group. Eight partial sums, so that compilers can use
// vectors.
template <typename Term>
double sum_over(std::size_t count, Term term) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += term(i + lane);
    }
  }
  for (; i < count; ++i) {
    lanes[i % kLanes] += term(i);
  }
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
         ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

// The largest of the range becomes 6. What fit() would choose between 6 and 4 depends on all
// weights of a group, not on the ends of their range.
GroupParameters nv_start(const Format& format, std::span<const float, 2> range) {
  constexpr double kLargestCode = 6;
  return {format.stored_scale(std::max(std::abs(range[0]), std::abs(range[1])) / kLargestCode), 0};
}

bool same(const GroupParameters& a, const GroupParameters& b) {
  return a.scale == b.scale && a.zero == b.zero && a.minimum == b.minimum;
}

}  // namespace

double GroupSearch::loss(const Format& format, std::span<const float> weights,
                         std::span<const float> importance, const GroupParameters& parameters) {
  codes_.resize(weights.size());
  values_.resize(weights.size());
  format.encode_group(weights, parameters, codes_);
  format.decode_group(codes_, parameters, values_);
  return sum_over(weights.size(), [&](std::size_t i) {
    const double error = static_cast<double>(weights[i]) - values_[i];
    return importance[i] * error * error;
  });
}

// Least squares given the codes in codes_. With a zero or a minimum, w = scale * code + offset is a
// line through the points (code, w); its offset is rounded, and the scale fitted again to what is
// left.
GroupParameters GroupSearch::refit(const Format& format, std::span<const float> weights,
                                   std::span<const float> importance,
                                   const GroupParameters& parameters) {
  GroupParameters result = parameters;
  const std::size_t count = weights.size();
  const auto h = [&](std::size_t i) { return static_cast<double>(importance[i]); };
  if (has_offsets(format.scheme())) {
    const double total = sum_over(count, h);
    const double code = sum_over(count, [&](std::size_t i) { return h(i) * codes_[i]; }) / total;
    const double mean = sum_over(count, [&](std::size_t i) { return h(i) * weights[i]; }) / total;
    const double variance = sum_over(
        count, [&](std::size_t i) { return h(i) * (codes_[i] - code) * (codes_[i] - code); });
    const double covariance = sum_over(
        count, [&](std::size_t i) { return h(i) * (codes_[i] - code) * (weights[i] - mean); });
    if (!(variance > 0) || !(covariance > 0)) {
      return parameters;
    }
    if (formats::has_minima(format.scheme())) {
      result.minimum = format.stored_minimum(mean - code * covariance / variance);
    } else {
      const double largest = (1 << format.scheme().code.bits) - 1;
      const double zero = code - mean * variance / covariance;
      result.zero = static_cast<int>(std::clamp(std::nearbyint(zero), 0.0, largest));
    }
  }
  format.decode_group(codes_, {1.0f, result.zero}, values_);
  const double cross = sum_over(count, [&](std::size_t i) {
    return h(i) * (static_cast<double>(weights[i]) - result.minimum) * values_[i];
  });
  const double square =
      sum_over(count, [&](std::size_t i) { return h(i) * values_[i] * values_[i]; });
  const double scale = cross / square;
  if (!(square > 0) || !std::isfinite(scale) || scale * parameters.scale <= 0) {
    return parameters;
  }
  result.scale = format.stored_scale(scale);
  return result;
}

void GroupSearch::descend(const Format& format, std::span<const float> weights,
                          std::span<const float> importance, GroupParameters parameters,
                          GroupFit& best) {
  double last = std::numeric_limits<double>::infinity();
  for (int round = 0; round <= kRefits; ++round) {
    const double now = loss(format, weights, importance, parameters);
    if (now < best.loss) {
      best = {parameters, now};
    }
    if (now >= last) {
      return;
    }
    last = now;
    const GroupParameters next = refit(format, weights, importance, parameters);
    if (same(next, parameters)) {
      return;
    }
    parameters = next;
  }
}

GroupFit GroupSearch::search_from(const Format& format, std::span<const float> weights,
                                  std::span<const float> importance, const GroupParameters& known) {
  GroupFit best{known, std::numeric_limits<double>::infinity()};
  descend(format, weights, importance, known, best);
  descend(format, weights, importance, format.fit(weights), best);
  const auto [low, high] = std::minmax_element(weights.begin(), weights.end());
  const bool is_nv = format.scheme().scale.type == formats::ScaleType::kE4m3;
  const double widest = is_nv ? kWidestNv : kWidest;
  for (int step = 0; step < steps_ && best.loss > 0; ++step) {
    const double factor = widest - (widest - kNarrowest) * step / std::max(1, steps_ - 1);
    const std::array<float, 2> range = {static_cast<float>(*low * factor),
                                        static_cast<float>(*high * factor)};
    const GroupParameters start = is_nv ? nv_start(format, range) : format.fit(range);
    descend(format, weights, importance, start, best);
    if (has_signed_scales(format.scheme())) {
      descend(format, weights, importance, {-start.scale, start.zero}, best);
    }
  }
  return best;
}

GroupFit GroupSearch::search(const Format& format, std::span<const float> weights,
                             std::span<const float> importance) {
  return search_from(format, weights, importance, format.fit(weights));
}

}  // namespace nibble::compress
