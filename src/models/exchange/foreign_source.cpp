#include "models/exchange/foreign_source.h"

#include <fmt/format.h>

namespace nibble::models {

std::optional<ForeignLayer> ForeignSource::foreign_layer(const std::string& prefix, std::int64_t n,
                                                         std::int64_t k) const {
  const std::span<const std::string_view> parts = reader_->part_names();
  if (!stored_->contains(fmt::format("{}.{}", prefix, parts.front()))) {
    return std::nullopt;
  }
  ForeignLayer layer;
  formats::exchange::StoredLayer stored{prefix, n, k, {}};
  for (const std::string_view part : parts) {
    const std::string name = fmt::format("{}.{}", prefix, part);
    if (stored_->contains(name)) {
      stored.parts.emplace(part, stored_->load_or_bytes(name));
      layer.tensors.push_back(name);
    }
  }
  layer.read = zero_points_ ? reader_->read_with_zero_points(stored) : reader_->read(stored);
  stored.parts.clear();
  stored_->check_intact();  // the layer was made of bytes that may be gone
  for (const std::string& name : layer.tensors) {
    stored_->release_pages(name);
  }
  return layer;
}

}  // namespace nibble::models
