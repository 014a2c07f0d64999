#include "formats/exchange/bitsandbytes/block_scales.h"

#include <string_view>

#include <fmt/format.h>

#include "core/error.h"
#include "core/json.h"
#include "formats/exchange/stored_scales.h"

namespace nibble::formats::exchange {
namespace {

using core::ErrorKind;
using core::require;

constexpr std::int64_t kMaxBlock = std::int64_t{1} << 20;
constexpr std::int64_t kNestedBook = 256;
constexpr std::string_view kNf4State = "weight.quant_state.bitsandbytes__nf4";
constexpr std::string_view kFp4State = "weight.quant_state.bitsandbytes__fp4";

std::string_view state_part(const StoredLayer& layer) {
  return layer.find(kFp4State) != nullptr ? kFp4State : kNf4State;
}

core::Json state_json(const StoredLayer& layer, const std::string& what) {
  const core::Tensor& state = layer.part(state_part(layer));
  require(state.dtype() == core::DType::kU8 && state.rank() == 1, ErrorKind::kInvalidModel,
          "tensor '{}' is {} {}, expected the bytes of a JSON text", core::printable(what),
          core::name_of(state.dtype()), core::printable(state.shape()));
  core::Json json = core::parse_json(
      {reinterpret_cast<const char*>(state.raw()), static_cast<std::size_t>(state.bytes())}, what);
  require(json.is_object(), ErrorKind::kInvalidModel, "{}: not an object", core::printable(what));
  return json;
}

void require_shape(const StoredLayer& layer, const core::Json& json, const std::string& what) {
  const auto shape = json.find("shape");
  require(shape != json.end() && *shape == core::Json::array({layer.n, layer.k}),
          ErrorKind::kInvalidModel, "{}: 'shape' is not [{}, {}]", core::printable(what), layer.n,
          layer.k);
}

}  // namespace

QuantState read_quant_state(const StoredLayer& layer) {
  const std::string what = fmt::format("{}.{}", layer.name, state_part(layer));
  const core::Json json = state_json(layer, what);
  require_shape(layer, json, what);
  QuantState state;
  state.block = core::get_integer(json, "blocksize", what, 1, kMaxBlock);
  require(layer.k % state.block == 0, ErrorKind::kInvalidModel,
          "{}: blocks of {} go over the ends of rows of {} inputs, which can't be read",
          core::printable(layer.name), state.block, layer.k);
  if (layer.find("weight.nested_absmax") != nullptr) {
    state.nested_block = core::get_integer(json, "nested_blocksize", what, 1, kMaxBlock);
    state.nested_offset =
        static_cast<float>(core::find_number(json, "nested_offset", what).value_or(0));
  }
  return state;
}

std::vector<float> block_scales(const StoredLayer& layer, const QuantState& state) {
  const std::int64_t blocks = layer.n * (layer.k / state.block);
  if (state.nested_block == 0) {
    return float_part(layer, "weight.absmax", {blocks});
  }
  const auto codes = layer.part("weight.absmax", core::DType::kU8, {blocks}).data<std::uint8_t>();
  const std::vector<float> book = float_part(layer, "weight.nested_quant_map", {kNestedBook});
  const std::int64_t outer = (blocks + state.nested_block - 1) / state.nested_block;
  const std::vector<float> scales = float_part(layer, "weight.nested_absmax", {outer});
  std::vector<float> values(codes.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float product = book[codes[i]] * scales[i / static_cast<std::size_t>(state.nested_block)];
    values[i] = product + state.nested_offset;
  }
  return values;
}

}  // namespace nibble::formats::exchange
