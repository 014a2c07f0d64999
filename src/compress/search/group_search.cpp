#include "compress/search/group_search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/hash.h"

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
// is not its own mirror image. Other fixed books and INT8 keep their scales positive.
bool has_signed_scales(const Scheme& scheme) {
  const bool longer_below = formats::value_bits(scheme) < 8;
  return (formats::is_integer(scheme) && !has_offsets(scheme) && longer_below) ||
         formats::has_learned_book(scheme) || scheme.code.book == formats::Book::kIq4;
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

void GroupSearch::take(const Format& format, std::span<const float> weights,
                       std::span<const float> importance) {
  const Scheme& scheme = format.scheme();
  format_ = &format;
  floats_ = weights;
  group_.assign(weights, importance);
  kind_ = Kind::kOther;
  if (formats::is_integer(scheme)) {
    kind_ = Kind::kSteps;
    fit_ = has_offsets(scheme) ? WeightedGroup::Fit::kLine : WeightedGroup::Fit::kScale;
    step_codes_ = formats::step_codes(scheme);
  } else if (formats::rounds_by_book_order(scheme)) {
    kind_ = Kind::kBook;
    Book book;
    std::array<std::uint8_t, book.size()> codes{};
    std::iota(codes.begin(), codes.end(), std::uint8_t{0});
    format.decode_group(codes, {}, book);
    if (!order_ || book != book_) {  // that of the group before, in nearly all cases
      book_ = book;
      order_.emplace(book);
    }
  }
  for (Rounding& rounding : roundings_) {
    rounding.codes.resize(weights.size());
    rounding.values.assign(group_.padded(), 0);
  }
}

void GroupSearch::round(const GroupParameters& parameters, Rounding& rounding) {
  rounding.parameters = parameters;
  switch (kind_) {
    case Kind::kSteps:
      rounding.sums = group_.round(parameters, step_codes_, fit_, rounding.values);
      return;
    case Kind::kBook:
      rounding.sums = group_.round(parameters, *order_, rounding.values);
      return;
    case Kind::kOther: {
      const auto values = std::span(rounding.values).first(floats_.size());
      format_->encode_group(floats_, parameters, rounding.codes);
      format_->decode_group(rounding.codes, parameters, values);
      rounding.sums = {.squared_error = group_.squared_error(rounding.values)};
    }
  }
}

double GroupSearch::loss(const Format& format, std::span<const float> weights,
                         std::span<const float> importance, const GroupParameters& parameters) {
  take(format, weights, importance);
  round(parameters, roundings_[0]);
  return roundings_[0].sums.squared_error;
}

// Least squares given the codes. With a zero or a minimum, w = scale * code + offset is a line
// through the points (code, w); its offset is rounded, and the scale fitted again to what is left.
GroupParameters GroupSearch::refit(Rounding& rounding) {
  const Scheme& scheme = format_->scheme();
  GroupParameters result = rounding.parameters;
  WeightedGroup::Scale fitted = {rounding.sums.cross, rounding.sums.sum};
  if (has_offsets(scheme)) {
    const WeightedGroup::Line line = group_.line(rounding.values, rounding.sums);
    if (!(line.variance > 0) || !(line.covariance > 0)) {
      return rounding.parameters;
    }
    if (formats::has_minima(scheme)) {
      result.minimum =
          format_->stored_minimum(line.weight - line.code * line.covariance / line.variance);
    } else {
      const double largest = (1 << scheme.code.bits) - 1;
      const double zero = line.code - line.weight * line.variance / line.covariance;
      result.zero = static_cast<int>(std::clamp(std::nearbyint(zero), 0.0, largest));
    }
    fitted = group_.scale(rounding.values, result.zero, result.minimum);
  } else if (kind_ == Kind::kOther) {
    format_->decode_group(rounding.codes, {1.0f, result.zero},
                          std::span(rounding.values).first(floats_.size()));
    fitted = group_.scale(rounding.values, 0, 0);
  }
  const double scale = fitted.cross / fitted.square;
  if (!(fitted.square > 0) || !std::isfinite(scale) || scale * result.scale <= 0) {
    return rounding.parameters;
  }
  result.scale = format_->stored_scale(scale);
  return result;
}

SeenCodes::Visit* GroupSearch::visit(const Rounding& rounding, int refits) {
  const SeenCodes::Visit now{rounding.parameters.scale < 0, refits, rounding.sums.squared_error};
  if (kind_ == Kind::kOther) {
    const auto codes = std::as_bytes(std::span(rounding.codes));
    return seen_.visit(codes, core::hash64(codes), now);
  }
  // A sum over weights and codes tells apart nearly all codes.
  return seen_.visit(std::as_bytes(std::span(rounding.values)),
                     std::bit_cast<std::uint64_t>(rounding.sums.cross), now);
}

void GroupSearch::descend(Rounding& rounding, GroupFit& best) {
  double last = std::numeric_limits<double>::infinity();
  SeenCodes::Visit* before = nullptr;
  for (int refits = 0; refits <= kRefits; ++refits) {
    const double now = rounding.sums.squared_error;
    if (now < best.loss) {
      best = {rounding.parameters, now};
    }
    if (now >= last) {
      before->ended = true;
      return;
    }
    last = now;
    before = visit(rounding, refits);
    if (before == nullptr) {
      return;
    }
    const GroupParameters next = refit(rounding);
    if (same(next, rounding.parameters)) {
      return;
    }
    round(next, rounding);
  }
}

void GroupSearch::add_starts(const GroupParameters& known) {
  starts_.assign(1, known);
  if (const GroupParameters fitted = format_->fit(floats_); !same(fitted, known)) {
    starts_.push_back(fitted);
  }
  const auto [low, high] = std::minmax_element(floats_.begin(), floats_.end());
  const bool is_nv = format_->scheme().scale.type == formats::ScaleType::kE4m3;
  const bool is_signed = has_signed_scales(format_->scheme());
  const double widest = is_nv ? kWidestNv : kWidest;
  GroupParameters last{0, 0};
  for (int step = 0; step < steps_; ++step) {
    const double factor = widest - (widest - kNarrowest) * step / std::max(1, steps_ - 1);
    const std::array<float, 2> range = {static_cast<float>(*low * factor),
                                        static_cast<float>(*high * factor)};
    const GroupParameters start = is_nv ? nv_start(*format_, range) : format_->fit(range);
    if (same(start, last)) {
      continue;
    }
    last = start;
    starts_.push_back(start);
    if (is_signed) {
      starts_.push_back({-start.scale, start.zero});
    }
  }
}

GroupFit GroupSearch::search_from(const Format& format, std::span<const float> weights,
                                  std::span<const float> importance, const GroupParameters& known) {
  take(format, weights, importance);
  add_starts(known);
  seen_.clear();
  GroupFit best{known, std::numeric_limits<double>::infinity()};
  for (std::size_t first = 0; first < starts_.size() && best.loss > 0; first += roundings_.size()) {
    const std::size_t count = std::min(roundings_.size(), starts_.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      round(starts_[first + i], roundings_[i]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      descend(roundings_[i], best);
    }
  }
  return best;
}

GroupFit GroupSearch::search(const Format& format, std::span<const float> weights,
                             std::span<const float> importance) {
  return search_from(format, weights, importance, format.fit(weights));
}

}  // namespace nibble::compress
