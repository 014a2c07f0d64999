#include "formats/exchange/compressed_tensors/layer_config.h"

#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "formats/exchange/config_fields.h"

namespace nibble::formats::exchange {
namespace {

using core::ErrorKind;
using core::Json;
using core::require;

bool is_empty(const Json& object, std::string_view key) {
  const auto at = object.find(key);
  return at == object.end() || at->is_null() || at->empty();
}

// Settings that change what the numbers mean, and are not built.
void refuse_settings(const Json& config) {
  for (const std::string_view key : {"kv_cache_scheme", "transform_config"}) {
    require(is_empty(config, key), ErrorKind::kInvalidModel, "{}: '{}' can't be read", kConfigName,
            key);
  }
  const auto sparsity = config.find("sparsity_config");
  if (sparsity != config.end() && sparsity->is_object()) {
    const std::string kind = core::find_string(*sparsity, "format", kConfigName).value_or("dense");
    require(kind == "dense", ErrorKind::kInvalidModel,
            "{}: weights of the sparse format '{}' can't be read", kConfigName,
            core::printable(kind));
  }
  const std::string status =
      core::find_string(config, "quantization_status", kConfigName).value_or("compressed");
  require(status == "compressed", ErrorKind::kInvalidModel,
          "{}: 'quantization_status' is '{}', only 'compressed' can be read", kConfigName,
          core::printable(status));
}

// The one group of layers. Several that differ in nothing but their layers are one.
Json only_group(const Json& config) {
  const auto groups = config.find("config_groups");
  require(groups != config.end() && groups->is_object() && !groups->empty(),
          ErrorKind::kInvalidModel, "{}: 'config_groups' must be an object with a group",
          kConfigName);
  Json first;
  for (const auto& [name, group] : groups->items()) {
    require(group.is_object() && group.contains("weights") && group.at("weights").is_object(),
            ErrorKind::kInvalidModel, "{}: group '{}' says nothing of weights", kConfigName,
            core::printable(name));
    Json settings = group;
    settings.erase("targets");
    require(first.is_null() || first == settings, ErrorKind::kInvalidModel,
            "{}: group '{}' differs from others in more than its layers, which can't be read",
            kConfigName, core::printable(name));
    first = std::move(settings);
  }
  require(is_empty(first, "output_activations"), ErrorKind::kInvalidModel,
          "{}: 'output_activations' can't be read", kConfigName);
  return first;
}

LayerFormat format_of(const std::string& name, bool floats) {
  if (name == "pack-quantized" && !floats) {
    return LayerFormat::kPackedIntegers;
  }
  if ((name == "int-quantized" || name == "naive-quantized") && !floats) {
    return LayerFormat::kIntegers;
  }
  if ((name == "float-quantized" || name == "naive-quantized") && floats) {
    return LayerFormat::kFp8;
  }
  if (name == "nvfp4-pack-quantized" && floats) {
    return LayerFormat::kNvfp4;
  }
  if (name == "mxfp4-pack-quantized" && floats) {
    return LayerFormat::kMxfp4;
  }
  core::fail(ErrorKind::kInvalidModel,
             "{}: compressed-tensors of format '{}' with {} can't be read, only pack-, int-, "
             "naive-, float-, nvfp4-pack- and mxfp4-pack-quantized",
             kConfigName, core::printable(name), floats ? "floats" : "integers");
}

Strategy strategy_of(const Json& weights) {
  const std::string name =
      core::find_string(weights, "strategy", kConfigName)
          .value_or(weights.contains("group_size") && !weights.at("group_size").is_null()
                        ? "group"
                        : "tensor");
  if (name == "tensor") {
    return Strategy::kTensor;
  }
  if (name == "channel") {
    return Strategy::kChannel;
  }
  require(name == "group" || name == "tensor_group", ErrorKind::kInvalidModel,
          "{}: weights with the strategy '{}' can't be read, only tensor, channel and group",
          kConfigName, core::printable(name));
  return Strategy::kGroup;
}

void read_weights(const Json& weights, LayerConfig& result) {
  result.symmetric = core::find_bool(weights, "symmetric", kConfigName).value_or(true);
  result.strategy = strategy_of(weights);
  if (result.strategy == Strategy::kGroup) {
    result.group = read_group(weights, "group_size");
    result.strategy = result.group == 0 ? Strategy::kChannel : Strategy::kGroup;
  }
  const bool floats = core::find_string(weights, "type", kConfigName).value_or("int") == "float";
  result.format = format_of(result.format_name, floats);
  if (!floats) {
    result.bits = read_bits(weights, "num_bits");
    return;
  }
  result.bits = static_cast<int>(core::get_integer(weights, "num_bits", kConfigName, 1, 64));
  require(result.bits == (result.format == LayerFormat::kFp8 ? 8 : 4) && result.symmetric,
          ErrorKind::kInvalidModel, "{}: {} of {} bits{} can't be read", kConfigName,
          core::printable(result.format_name), result.bits,
          result.symmetric ? "" : " with zero points");
}

}  // namespace

LayerConfig read_layer_config(const Json& config) {
  refuse_settings(config);
  const Json group = only_group(config);
  LayerConfig result;
  const auto own = core::find_string(group, "format", kConfigName);
  result.format_name = own ? *own : core::get_string(config, "format", kConfigName);
  read_weights(group.at("weights"), result);
  require(result.symmetric || result.strategy != Strategy::kTensor, ErrorKind::kInvalidModel,
          "{}: zero points beside one scale for a matrix can't be read", kConfigName);
  const auto inputs = group.find("input_activations");
  result.activations = read_activation_rule(inputs == group.end() ? Json() : *inputs,
                                            result.format == LayerFormat::kFp8);
  return result;
}

}  // namespace nibble::formats::exchange
