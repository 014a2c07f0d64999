#include <algorithm>

#include "core/error.h"
#include "ops/cuda/attention/packed/packed_attention.h"

namespace nibble::ops::cuda {

std::vector<PackedTile> packed_tiles(std::span<const std::int32_t> firsts, std::int64_t rows,
                                     std::int64_t count, std::int64_t tile_rows) {
  std::vector<PackedTile> tiles;
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    const std::int64_t first = firsts[i];
    const std::int64_t end = i + 1 < firsts.size() ? firsts[i + 1] : rows;
    core::require(first >= 0 && first <= end, core::ErrorKind::kUsage,
                  "text {} of a packed batch begins at row {} and ends at {}", i, first, end);
    for (std::int64_t row = first; row < end; row += tile_rows) {
      tiles.push_back({static_cast<std::int32_t>(row),
                       static_cast<std::int32_t>(std::min(tile_rows, end - row)),
                       static_cast<std::int32_t>(first), static_cast<std::int32_t>(end - first)});
    }
  }
  if (static_cast<std::int64_t>(tiles.size()) < count) {
    tiles.resize(static_cast<std::size_t>(count));
  }
  return tiles;
}

}  // namespace nibble::ops::cuda
