#include "models/layer_part.h"

#include <algorithm>

namespace nibble::models {
namespace {

constexpr std::array<std::string_view, kLayerParts.size()> kNames = {"qkv", "out", "mlp-in",
                                                                     "mlp-out"};

}  // namespace

std::string_view name_of(LayerPart part) {
  return kNames[static_cast<std::size_t>(part)];
}

std::optional<LayerPart> parse_layer_part(std::string_view word) {
  const auto* const at = std::find(kNames.begin(), kNames.end(), word);
  return at == kNames.end()
             ? std::nullopt
             : std::optional(kLayerParts[static_cast<std::size_t>(at - kNames.begin())]);
}

std::optional<LayerPart> part_of(const Block& block, const ops::LinearSet& set) {
  const ops::LinearSet* const it = &set;
  const auto is_in = [&](const Mlp& mlp) { return it == &mlp.up; };
  const auto is_out = [&](const Mlp& mlp) { return it == &mlp.down; };
  if (it == &block.attention.qkv ||
      (block.cross && (it == &block.cross->q || it == &block.cross->kv))) {
    return LayerPart::kQkv;
  }
  if (it == &block.attention.out || (block.cross && it == &block.cross->out)) {
    return LayerPart::kOut;
  }
  if ((block.mlp && is_in(*block.mlp)) ||
      std::any_of(block.experts.begin(), block.experts.end(), is_in)) {
    return LayerPart::kMlpIn;
  }
  if ((block.mlp && is_out(*block.mlp)) ||
      std::any_of(block.experts.begin(), block.experts.end(), is_out)) {
    return LayerPart::kMlpOut;
  }
  return std::nullopt;
}

std::string to_string(const PartSchemes& schemes) {
  std::string text;
  for (const LayerPart part : kLayerParts) {
    const auto at = schemes.find(part);
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name_of(part),
                        at == schemes.end() ? "float" : formats::to_string(at->second));
  }
  return text;
}

}  // namespace nibble::models
