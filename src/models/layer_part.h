#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "models/network.h"

namespace nibble::models {

/// The four matrix products of a transformer layer, as strategies of quantization tell them apart
/// (Wu et al. 2023, arXiv 2301.12017). Cross attention has its q and k|v in kQkv, its output in
/// kOut; experts are MLPs.
enum class LayerPart { kQkv, kOut, kMlpIn, kMlpOut };

inline constexpr std::array kLayerParts = {LayerPart::kQkv, LayerPart::kOut, LayerPart::kMlpIn,
                                           LayerPart::kMlpOut};

/// "qkv", "out", "mlp-in", "mlp-out".
std::string_view name_of(LayerPart part);
std::optional<LayerPart> parse_layer_part(std::string_view word);

/// The part that a set of a block belongs to; nullopt for a router.
std::optional<LayerPart> part_of(const Block& block, const ops::LinearSet& set);

/// The schemes of the parts of all layers. A part that is not in it stays as it is.
using PartSchemes = std::map<LayerPart, formats::Scheme>;

/// "qkv=int8-sym-row-a8,out=float,mlp-in=int4-sym-row-a4,mlp-out=float": all four.
std::string to_string(const PartSchemes& schemes);

}  // namespace nibble::models
