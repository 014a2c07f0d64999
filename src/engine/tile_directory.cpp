#include "engine/tile_directory.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "core/json.h"

namespace nibble::engine {
namespace {

using core::Json;

constexpr std::int64_t kLargestCode = 255;
constexpr std::int64_t kAnyInteger = std::numeric_limits<std::int64_t>::max();

void add_set(const ops::LinearSet& set, TileDirectory& directory) {
  for (const ops::Linear& layer : set.parts) {
    if (!ops::cpu::has_layout(layer.weight.scheme)) {
      continue;
    }
    TiledLayer tiled{&layer, {}};
    const std::size_t slots = layer.weight.scheme.inputs.tail == 0 ? 1 : 2;
    for (std::size_t i = 0; i < slots; ++i) {
      const ops::cpu::PackedPlan plan = ops::cpu::packed_plan(matrix_of(layer, i));
      TileSlot slot;
      slot.offset = border(directory.end, kMatrixBorder);
      slot.bytes = plan.tile_bytes;
      slot.range = plan.range;
      slot.sums_bytes = plan.sums * static_cast<std::int64_t>(sizeof(std::int32_t));
      slot.sums_offset = border(slot.offset + slot.bytes, kMatrixBorder);
      directory.end =
          slot.sums_bytes == 0 ? slot.offset + slot.bytes : slot.sums_offset + slot.sums_bytes;
      tiled.slots.push_back(slot);
    }
    directory.layers.push_back(std::move(tiled));
  }
}

std::uint64_t parse_hash(const Json& json, std::string_view key, std::string_view what) {
  const std::string text = core::get_string(json, key, what);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  core::require(text.size() == 16 && error == std::errc() && end == text.data() + text.size(),
                core::ErrorKind::kInvalidModel, "{}: '{}' is not a hash of 16 hex digits", what,
                key);
  return value;
}

const Json& get_array(const Json& json, std::string_view key, std::string_view what) {
  const auto at = json.is_object() ? json.find(key) : json.end();
  core::require(at != json.end() && at->is_array(), core::ErrorKind::kInvalidModel,
                "{}: '{}' must be a list", what, key);
  return *at;
}

}  // namespace

TileDirectory plan_directory(const models::Network& network) {
  TileDirectory directory;
  for (const ops::LinearSet* set : models::linear_sets(network)) {
    add_set(*set, directory);
  }
  return directory;
}

formats::PackedWeight matrix_of(const ops::Linear& layer, std::size_t slot) {
  return slot == 0 ? formats::head_of(layer.weight) : formats::tail_of(layer.weight);
}

Json layer_to_json(const TiledLayer& layer) {
  Json matrices = Json::array();
  for (const TileSlot& slot : layer.slots) {
    matrices.push_back({{"offset", slot.offset},
                        {"bytes", slot.bytes},
                        {"sums_offset", slot.sums_offset},
                        {"sums_bytes", slot.sums_bytes},
                        {"zero", slot.range.value().zero},
                        {"largest", slot.range.value().largest}});
  }
  const formats::PackedWeight& weight = layer.layer->weight;
  return {{"name", layer.layer->name},
          {"scheme", formats::to_string(weight.scheme)},
          {"n", weight.n},
          {"k", weight.k},
          {"matrices", std::move(matrices)}};
}

Json to_json(const io::Fingerprint& print) {
  return {{"name", print.name},
          {"bytes", print.bytes},
          {"modified", print.modified},
          {"sample", fmt::format("{:016x}", print.sample)},
          {"content", fmt::format("{:016x}", print.content)}};
}

io::Fingerprint parse_fingerprint(const Json& json, std::string_view what) {
  core::require(json.is_object(), core::ErrorKind::kInvalidModel, "{}: a file must be an object",
                what);
  io::Fingerprint print;
  print.name = core::get_string(json, "name", what);
  print.bytes = core::get_integer(json, "bytes", what, 0, kAnyInteger);
  print.modified = core::get_integer(json, "modified", what, -kAnyInteger, kAnyInteger);
  print.sample = parse_hash(json, "sample", what);
  print.content = parse_hash(json, "content", what);
  return print;
}

bool complete_directory(TileDirectory& directory, const Json& json, std::string_view what) {
  const Json& layers = get_array(json, "layers", what);
  if (layers.size() != directory.layers.size()) {
    return false;
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    TiledLayer& expected = directory.layers[i];
    const Json& matrices = get_array(layers[i], "matrices", what);
    if (matrices.size() != expected.slots.size()) {
      return false;
    }
    for (std::size_t j = 0; j < matrices.size(); ++j) {
      core::require(matrices[j].is_object(), core::ErrorKind::kInvalidModel,
                    "{}: a matrix must be an object", what);
      if (!expected.slots[j].range) {
        expected.slots[j].range = {
            static_cast<int>(core::get_integer(matrices[j], "zero", what, 0, kLargestCode)),
            static_cast<int>(core::get_integer(matrices[j], "largest", what, 0, kLargestCode))};
      }
    }
    if (layer_to_json(expected) != layers[i]) {
      return false;
    }
  }
  return true;
}

}  // namespace nibble::engine
