// float-quantized, nvfp4-pack-quantized and mxfp4-pack-quantized.

#include <algorithm>
#include <span>
#include <vector>

#include "core/error.h"
#include "formats/exchange/compressed_tensors/layer_readers.h"
#include "formats/exchange/stored_scales.h"
#include "formats/format.h"
#include "formats/fp8/fp8_codes.h"

namespace nibble::formats::exchange {
namespace {

using core::DType;
using core::ErrorKind;
using core::require;

constexpr std::int64_t kNvGroup = 16;
constexpr std::int64_t kMxGroup = 32;

void require_numbers(std::span<const std::uint8_t> codes, const StoredLayer& layer) {
  const auto bad = std::find_if_not(codes.begin(), codes.end(), kFp8Codes.is_number);
  require(bad == codes.end(), ErrorKind::kInvalidModel, "{}.weight: output {}, input {} is NaN",
          core::printable(layer.name), (bad - codes.begin()) / layer.k,
          (bad - codes.begin()) % layer.k);
}

}  // namespace

ReadLayer read_fp8(const StoredLayer& layer, const LayerConfig& config) {
  require(config.strategy != Strategy::kGroup, ErrorKind::kInvalidModel,
          "{}: E4M3 weights with scales of groups can't be read", core::printable(layer.name));
  Scheme scheme;
  scheme.code = {.type = &kFp8Codes, .bits = 8};
  scheme.scale.type = ScaleType::kF16;
  scheme.activation = config.activations.activation;
  const auto codes = layer.part("weight", DType::kU8, {layer.n, layer.k}).data<std::uint8_t>();
  require_numbers(codes, layer);
  const std::vector<float> values = scales_of(layer, config);
  StoredScales scales(layer.name);
  PackedWeightBuilder builder(scheme, layer.n, layer.k);
  for (std::int64_t row = 0; row < layer.n; ++row) {
    builder.set_group(row, 0, {scales.round(values[static_cast<std::size_t>(row)]), 0});
    builder.set_codes(row, codes.subspan(static_cast<std::size_t>(row * layer.k),
                                         static_cast<std::size_t>(layer.k)));
  }
  return {builder.finish(), scales.error(), {}};
}

// Codes lie as Nibble has them: the bytes are taken as they are.
ReadLayer read_fp4(const StoredLayer& layer, const LayerConfig& config) {
  const bool nv = config.format == LayerFormat::kNvfp4;
  const std::int64_t group = nv ? kNvGroup : kMxGroup;
  require(layer.k % group == 0 && (config.group == 0 || config.group == group),
          ErrorKind::kInvalidModel, "{}: {} has groups of {} inputs, which {} do not fit",
          core::printable(layer.name), core::printable(config.format_name), group, layer.k);
  ReadLayer result;
  PackedWeight& weight = result.weight;
  weight.scheme.code = {&kBookCodes, 4, Book::kE2m1};
  weight.scheme.scale = {nv ? ScaleType::kE4m3 : ScaleType::kE8m0, group};
  weight.n = layer.n;
  weight.k = layer.k;
  weight.codes = layer.part("weight_packed", DType::kU8, {layer.n, layer.k / 2});
  weight.scales = layer.part("weight_scale", DType::kU8, {layer.n, layer.k / group});
  if (nv) {
    const float global[] = {1.0f / single_float(layer, "weight_global_scale")};
    weight.global = core::Tensor::from(std::span<const float>(global), {1, 1});
  }
  validate(weight, layer.name);
  return result;
}

}  // namespace nibble::formats::exchange
