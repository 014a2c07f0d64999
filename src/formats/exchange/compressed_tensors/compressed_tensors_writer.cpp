// Layers and quantization_config of compressed-tensors: pack-quantized weights, and int-quantized
// ones whose inputs are rounded too.

#include <fmt/format.h>

#include "core/json.h"
#include "formats/exchange/compressed_tensors/compressed_tensors.h"
#include "formats/exchange/integer_grid.h"
#include "formats/exchange/written_scheme.h"

namespace nibble::formats::exchange {
namespace {

using core::DType;
using core::Json;
using core::Tensor;

constexpr int kMiddle8 = 128;

// 8 bits for weights of whole rows and inputs of tokens, without exceptions: W8A8.
bool is_w8a8(const Scheme& scheme) {
  Activation expected;
  expected.bits = 8;
  return is_integer(scheme) && scheme.code.bits == 8 && scheme.scale.group == 0 &&
         scheme.activation == expected && scheme.inputs == Inputs();
}

Tensor signed_codes(const IntegerGrid& grid) {
  Tensor tensor = Tensor::zeros(DType::kI8, {grid.n, grid.k});
  const auto values = tensor.mutable_data<std::int8_t>();
  for (std::size_t i = 0; i < grid.codes.size(); ++i) {
    values[i] = static_cast<std::int8_t>(grid.codes[i] - kMiddle8);
  }
  return tensor;
}

Json weights_of(const Scheme& scheme) {
  Json weights = {
      {"num_bits", scheme.code.bits}, {"type", "int"}, {"symmetric", true}, {"dynamic", false}};
  weights["strategy"] = scheme.scale.group == 0 ? "channel" : "group";
  if (scheme.scale.group != 0) {
    weights["group_size"] = scheme.scale.group;
  }
  return weights;
}

class CompressedTensorsWriter final : public Writer {
 public:
  Scheme nearest(const Scheme& scheme) const override {
    Scheme nearest =
        integer_scheme(scheme.code.bits <= 4 ? 4 : 8, written_group(scheme), Zero::kNone);
    if (is_w8a8(scheme)) {
      nearest.activation = scheme.activation;
    }
    return nearest;
  }

  std::string problem(const Scheme& scheme, std::int64_t, std::int64_t k) const override {
    return problem_of_groups(scheme, k);
  }

  std::vector<WrittenPart> write(const IntegerGrid& grid) const override {
    if (!grid.activation.is_float()) {
      return {{"weight", signed_codes(grid)}, {"weight_scale", scales_by_row(grid)}};
    }
    const std::vector<std::int64_t> shape = {grid.n, grid.k};
    return {{"weight_packed", words_of_codes(grid)},
            {"weight_scale", scales_by_row(grid)},
            {"weight_shape", Tensor::from<std::int64_t>(shape, {2})}};
  }

  // No key that older versions do not know: they refuse those.
  Json config(const WrittenModel& model) const override {
    const bool inputs = !model.scheme.activation.is_float();
    const char* const format = inputs ? "int-quantized" : "pack-quantized";
    const Json tokens = {{"num_bits", 8},
                         {"type", "int"},
                         {"symmetric", true},
                         {"strategy", "token"},
                         {"dynamic", true}};
    std::vector<std::string> ignored = model.dense;
    ignored.emplace_back("lm_head");
    return {{"quant_method", "compressed-tensors"},
            {"format", format},
            {"quantization_status", "compressed"},
            {"ignore", ignored},
            {"config_groups",
             {{"group_0",
               {{"targets", {"Linear"}},
                {"weights", weights_of(model.scheme)},
                {"input_activations", inputs ? tokens : Json()},
                {"output_activations", Json()}}}}}};
  }
};

}  // namespace

std::unique_ptr<const Writer> make_compressed_tensors_writer() {
  return std::make_unique<const CompressedTensorsWriter>();
}

}  // namespace nibble::formats::exchange
