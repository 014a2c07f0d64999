#include "compress/search/searched_rounding.h"

#include <algorithm>
#include <vector>

#include "compress/search/group_search.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kRows = 4;  // of one task

}  // namespace

formats::PackedWeight search_to_nearest(std::span<const float> w, std::int64_t n, std::int64_t k,
                                        const formats::Scheme& scheme, core::ThreadPool& pool) {
  core::require(formats::is_integer(scheme) && scheme.scale.type == formats::ScaleType::kF16 &&
                    scheme.scale.rows == 1 && scheme.inputs == formats::Inputs(),
                core::ErrorKind::kUsage, "{} is not rounded with searched scales", scheme);
  const auto format = formats::make_format(scheme);
  const std::int64_t size = formats::group_size(scheme, k);
  formats::PackedWeightBuilder builder(scheme, n, k);
  const std::vector<float> alike(static_cast<std::size_t>(size), 1.0f);
  pool.parallel_for(n, kRows, [&](std::int64_t first, std::int64_t last) {
    GroupSearch search(kSearchSteps);
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(k));
    for (std::int64_t row = first; row < last; ++row) {
      for (std::int64_t begin = 0; begin < k; begin += size) {
        const auto width = static_cast<std::size_t>(std::min(size, k - begin));
        const auto group = w.subspan(static_cast<std::size_t>(row * k + begin), width);
        const GroupFit fit = search.search(*format, group, std::span(alike).first(width));
        builder.set_group(row, begin / size, fit.parameters);
        format->encode_group(group, fit.parameters,
                             std::span(codes).subspan(static_cast<std::size_t>(begin), width));
      }
      builder.set_codes(row, codes);
    }
  });
  return builder.finish();
}

}  // namespace nibble::compress
