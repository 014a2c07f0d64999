#include "tune/fake_quantizer.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace nibble::tune {
namespace {

using formats::GroupParameters;

constexpr std::int64_t kRows = 16;  // of one task

// One group of a row: its place among all [n, groups], and that of its weights.
struct Group {
  std::int64_t at;
  std::int64_t begin;
  std::size_t width;
};

template <typename Work>
void for_each_group(const GroupScales& scales, core::ThreadPool& pool, Work work) {
  pool.parallel_for(scales.n(), kRows, [&](std::int64_t first, std::int64_t last) {
    std::vector<std::uint8_t> codes(
        static_cast<std::size_t>(formats::group_size(scales.scheme(), scales.k())));
    for (std::int64_t row = first; row < last; ++row) {
      for (std::int64_t g = 0; g < scales.groups(); ++g) {
        const compress::GroupRange range = scales.range(g);
        work(Group{row * scales.groups() + g, row * scales.k() + range.begin,
                   static_cast<std::size_t>(range.width)},
             std::span(codes).first(static_cast<std::size_t>(range.width)));
      }
    }
  });
}

template <typename T>
std::span<T> part(std::span<T> all, const Group& group) {
  return all.subspan(static_cast<std::size_t>(group.begin), group.width);
}

// What the gradient of one group does to its scale and zero.
struct GroupSums {
  double scale = 0;
  double zero = 0;
};

// `gradient` becomes that at the weights.
GroupSums pass_back(std::span<const float> weights, std::span<const std::uint8_t> codes,
                    const GroupParameters& stored, std::span<float> gradient) {
  GroupSums sums;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const float v = weights[i] / stored.scale;
    const auto q = static_cast<float>(static_cast<int>(codes[i]) - stored.zero);
    const float g = gradient[i];
    if (std::nearbyint(v) == q) {
      sums.scale += static_cast<double>(g * (q - v));
    } else {
      sums.scale += static_cast<double>(g * q);
      sums.zero -= static_cast<double>(g * stored.scale);
      gradient[i] = 0.0f;
    }
  }
  return sums;
}

}  // namespace

void fake_quantize(const GroupScales& scales, const TrainedWeight& trained, std::span<float> values,
                   core::ThreadPool& pool) {
  const bool has_scales = has_trained_scales(scales.scheme());
  for_each_group(scales, pool, [&](const Group& group, std::span<std::uint8_t> codes) {
    const auto to = part(values, group);
    if (!scales.keeps(group.at)) {
      std::fill(to.begin(), to.end(), 0.0f);
      return;
    }
    const auto weights = part(trained.weights, group);
    if (!has_scales) {
      std::transform(weights.begin(), weights.end(), to.begin(),
                     [](float weight) { return core::to_float(core::to_fp16(weight)); });
      return;
    }
    const GroupParameters stored = scales.stored(group.at, trained.logarithms, trained.zeros);
    scales.format().encode_group(weights, stored, codes);
    scales.format().decode_group(codes, stored, to);
  });
}

void fake_quantize_back(const GroupScales& scales, const TrainedWeight& trained,
                        const WeightGradient& gradient, core::ThreadPool& pool) {
  const bool has_scales = has_trained_scales(scales.scheme());
  for_each_group(scales, pool, [&](const Group& group, std::span<std::uint8_t> codes) {
    const auto own = part(gradient.weights, group);
    if (!scales.keeps(group.at)) {
      std::fill(own.begin(), own.end(), 0.0f);
      return;
    }
    if (!has_scales) {
      return;
    }
    const GroupParameters stored = scales.stored(group.at, trained.logarithms, trained.zeros);
    const auto weights = part(trained.weights, group);
    scales.format().encode_group(weights, stored, codes);
    const GroupSums sums = pass_back(weights, codes, stored, own);
    const auto at = static_cast<std::size_t>(group.at);
    // ds / d log|s| = s, before it is rounded.
    const double magnitude = std::exp(static_cast<double>(trained.logarithms[at]));
    gradient.logarithms[at] +=
        static_cast<float>(sums.scale * std::copysign(magnitude, stored.scale));
    if (!gradient.zeros.empty()) {
      gradient.zeros[at] += static_cast<float>(sums.zero);
    }
  });
}

compress::CodedWeight coded(const GroupScales& scales, const TrainedWeight& trained,
                            core::ThreadPool& pool) {
  compress::CodedWeight result;
  result.codes.resize(static_cast<std::size_t>(scales.n() * scales.k()));
  result.parameters.groups.resize(static_cast<std::size_t>(scales.count()));
  for_each_group(scales, pool, [&](const Group& group, std::span<std::uint8_t> codes) {
    const GroupParameters stored = scales.stored(group.at, trained.logarithms, trained.zeros);
    result.parameters.groups[static_cast<std::size_t>(group.at)] = stored;
    const auto to = part(std::span(result.codes), group);
    if (!scales.keeps(group.at)) {
      std::fill(to.begin(), to.end(), static_cast<std::uint8_t>(stored.zero));
      return;
    }
    scales.format().encode_group(part(trained.weights, group), stored, codes);
    std::copy(codes.begin(), codes.end(), to.begin());
  });
  return result;
}

}  // namespace nibble::tune
