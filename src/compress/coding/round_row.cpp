#include "compress/coding/round_row.h"

#include <algorithm>

namespace nibble::compress {

void round_row(const formats::Format& format, std::span<float> row) {
  const auto group = static_cast<std::size_t>(
      formats::group_size(format.scheme(), static_cast<std::int64_t>(row.size())));
  std::vector<std::uint8_t> codes(std::min(group, row.size()));
  for (std::size_t begin = 0; begin < row.size(); begin += group) {
    const auto weights = row.subspan(begin, std::min(group, row.size() - begin));
    const formats::GroupParameters parameters = format.fit(weights);
    const auto group_codes = std::span(codes).first(weights.size());
    format.encode_group(weights, parameters, group_codes);
    format.decode_group(group_codes, parameters, weights);
  }
}

}  // namespace nibble::compress
