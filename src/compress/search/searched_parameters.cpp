#include "compress/search/searched_parameters.h"

#include "compress/search/group_search.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kRows = 4;  // of one task

}  // namespace

Parameters search_parameters(std::span<const float> weights, std::int64_t n, std::int64_t k,
                             const formats::Scheme& scheme, std::span<const float> importance,
                             int steps, core::ThreadPool& pool) {
  const std::int64_t groups = parameter_groups(scheme, k);
  Parameters parameters = empty_parameters(weights, scheme);
  const RowFormats formats(scheme, parameters);
  parameters.groups.resize(static_cast<std::size_t>(n * groups));
  pool.parallel_for(n, kRows, [&](std::int64_t begin, std::int64_t end) {
    GroupSearch group_search(steps);
    for (std::int64_t at = begin * groups; at < end * groups; ++at) {
      const GroupRange range = group_range(scheme, k, at % groups);
      const auto width = static_cast<std::size_t>(range.width);
      const auto first = static_cast<std::size_t>(at / groups * k + range.begin);
      parameters.groups[static_cast<std::size_t>(at)] =
          group_search
              .search(range.tail ? formats.tail() : formats.of(0), weights.subspan(first, width),
                      importance.subspan(static_cast<std::size_t>(range.begin), width))
              .parameters;
    }
  });
  round_scales(parameters, scheme, k);
  return parameters;
}

}  // namespace nibble::compress
