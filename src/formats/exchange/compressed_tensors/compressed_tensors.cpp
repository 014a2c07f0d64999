#include "formats/exchange/compressed_tensors/compressed_tensors.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "core/json.h"
#include "formats/exchange/compressed_tensors/layer_readers.h"
#include "formats/exchange/integer_grid.h"
#include "formats/exchange/stored_scales.h"

namespace nibble::formats::exchange {
namespace {

using core::ErrorKind;

constexpr std::array<std::string_view, 8> kPackedParts = {
    "weight_packed",       "weight_scale", "weight_shape", "weight_zero_point",
    "weight_global_scale", "weight_g_idx", "input_scale",  "input_global_scale"};
constexpr std::array<std::string_view, 5> kPlainParts = {
    "weight_scale", "weight", "weight_zero_point", "input_scale", "input_zero_point"};

ReadLayer read_weight(const StoredLayer& layer, const LayerConfig& config) {
  switch (config.format) {
    case LayerFormat::kPackedIntegers:
      return read_packed_integers(layer, config);
    case LayerFormat::kIntegers:
      return read_integers(layer, config);
    case LayerFormat::kFp8:
      return read_fp8(layer, config);
    case LayerFormat::kNvfp4:
    case LayerFormat::kMxfp4:
      return read_fp4(layer, config);
  }
  core::fail(ErrorKind::kFailed, "no such format of layers");
}

// The scale of the layer's inputs, where activations are rounded by it.
float stored_input_scale(const StoredLayer& layer) {
  const float scale = single_float(layer, "input_scale");
  core::require(scale >= kMinInputScale && scale <= kMaxInputScale, ErrorKind::kInvalidModel,
                "{}.input_scale: {} is not in [2^-100, 2^100]", core::printable(layer.name), scale);
  return scale;
}

class CompressedTensorsReader final : public Reader {
 public:
  explicit CompressedTensorsReader(LayerConfig config) : config_(std::move(config)) {}

  std::string description() const override {
    return fmt::format("compressed-tensors, {}, {} bits", config_.format_name, config_.bits);
  }

  std::span<const std::string_view> part_names() const override {
    const bool plain =
        config_.format == LayerFormat::kIntegers || config_.format == LayerFormat::kFp8;
    return plain ? std::span<const std::string_view>(kPlainParts) : kPackedParts;
  }

  ReadLayer read(const StoredLayer& layer) const override {
    ReadLayer result = read_weight(layer, config_);
    if (config_.activations.activation.stored_scale) {
      result.weight = with_input_scale(std::move(result.weight), stored_input_scale(layer));
    }
    if (!config_.activations.remark.empty()) {
      result.remarks.push_back(config_.activations.remark);
    }
    return result;
  }

 private:
  LayerConfig config_;
};

}  // namespace

std::vector<float> scales_of(const StoredLayer& layer, const LayerConfig& config) {
  if (config.strategy != Strategy::kTensor) {
    return float_part(layer, "weight_scale", {layer.n, groups_of(layer.k, config.group)});
  }
  return std::vector<float>(static_cast<std::size_t>(layer.n), single_float(layer, "weight_scale"));
}

std::unique_ptr<const Reader> make_compressed_tensors_reader(const core::Json& config) {
  return std::make_unique<const CompressedTensorsReader>(read_layer_config(config));
}

}  // namespace nibble::formats::exchange
