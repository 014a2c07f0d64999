#include "ops/cuda/attention/packed/text_tiles.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "core/error.h"

namespace nibble::ops::cuda {
namespace {

using core::ErrorKind;

constexpr auto kTileBytes = static_cast<std::int64_t>(sizeof(PackedTile));
static_assert(kTileBytes % StepUpload::kAlignment == 0);

// At most an eighth more, or eight.
std::int64_t filled_up(std::int64_t tiles) {
  const auto below = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(tiles)));
  const std::int64_t unit = std::max<std::int64_t>(1, below / 8);
  return (tiles + unit - 1) / unit * unit;
}

std::vector<std::int32_t> firsts_of(const Batch<KvSequence>& batch) {
  std::vector<std::int32_t> firsts;
  std::int64_t next = 0;
  for (const auto& slice : batch.slices) {
    core::require(slice.cache == nullptr && slice.row == next, ErrorKind::kFailed,
                  "texts of a step have no caches and follow one another");
    firsts.push_back(static_cast<std::int32_t>(slice.row));
    next += slice.rows;
  }
  core::require(next == std::ssize(batch.tokens), ErrorKind::kFailed,
                "texts have {} of a step's {} tokens", next, batch.tokens.size());
  return firsts;
}

}  // namespace

bool TextTiles::plan(const Batch<KvSequence>& batch, std::int64_t rows, StepUpload& upload) {
  count_ = 0;
  if (batch.slices.empty() || batch.slices.front().cache != nullptr) {
    return false;
  }
  const std::vector<std::int32_t> firsts = firsts_of(batch);
  std::vector<PackedTile> tiles = packed_tiles(firsts, std::ssize(batch.tokens));
  tiles.resize(static_cast<std::size_t>(filled_up(std::ssize(tiles))));
  if (device_.empty()) {
    const std::int64_t most = filled_up(rows) * kTileBytes;  // of texts of one token
    host_ = device::cuda::PinnedBuffer(most);
    device_ = device::cuda::Buffer(most);
  }
  std::copy(tiles.begin(), tiles.end(), host_.as<PackedTile>());
  count_ = std::ssize(tiles);
  upload.add(host_.data(), device_.data(), count_ * kTileBytes);
  return true;
}

}  // namespace nibble::ops::cuda
