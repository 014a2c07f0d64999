// Layers and quantization_config of GPTQ checkpoints, version 1.

#include <fmt/format.h>

#include "core/json.h"
#include "formats/exchange/gptq/gptq.h"
#include "formats/exchange/integer_grid.h"
#include "formats/exchange/row_ranges.h"
#include "formats/exchange/word_stream.h"
#include "formats/exchange/written_scheme.h"

namespace nibble::formats::exchange {
namespace {

using core::DType;
using core::Tensor;

constexpr std::int64_t kWholeWords = 32;  // numbers of any bits that fill words

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// Along k.
Tensor words_of_inputs(const IntegerGrid& grid) {
  Tensor tensor = Tensor::zeros(DType::kI32, {words_for(grid.k, grid.bits), grid.n});
  const auto words = tensor.mutable_data<std::int32_t>();
  for_row_ranges(grid.n, grid.k, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t k = 0; k < grid.k; ++k) {
      for (std::int64_t n = first; n < last; ++n) {
        put_number(words.subspan(index(n)), grid.n, grid.bits, k,
                   grid.codes[index(n * grid.k + k)]);
      }
    }
  });
  return tensor;
}

// Less one, along n.
Tensor words_of_zeros(const IntegerGrid& grid) {
  const std::int64_t groups = groups_of(grid.k, grid.group);
  const std::int64_t columns = words_for(grid.n, grid.bits);
  Tensor tensor = Tensor::zeros(DType::kI32, {groups, columns});
  const auto words = tensor.mutable_data<std::int32_t>();
  for (std::int64_t group = 0; group < groups; ++group) {
    for (std::int64_t n = 0; n < grid.n; ++n) {
      put_number(words.subspan(index(group * columns)), 1, grid.bits, n,
                 static_cast<std::uint8_t>(zero_of(grid, index(n * groups + group)) - 1));
    }
  }
  return tensor;
}

Tensor groups_of_inputs(const IntegerGrid& grid) {
  Tensor tensor = Tensor::zeros(DType::kI32, {grid.k});
  const auto groups = tensor.mutable_data<std::int32_t>();
  const std::int64_t group = grid.group == 0 ? grid.k : grid.group;
  for (std::int64_t i = 0; i < grid.k; ++i) {
    const std::int64_t input = grid.order.empty() ? i : grid.order[index(i)];
    groups[index(input)] = static_cast<std::int32_t>(i / group);
  }
  return tensor;
}

class GptqWriter final : public Writer {
 public:
  Scheme nearest(const Scheme& scheme) const override {
    Scheme nearest = integer_scheme(scheme.code.bits, written_group(scheme), Zero::kNone);
    nearest.inputs.ordered = is_integer(scheme) && scheme.inputs.ordered;
    return nearest;
  }

  std::string problem(const Scheme& scheme, std::int64_t n, std::int64_t k) const override {
    return n % kWholeWords == 0 && k % kWholeWords == 0
               ? problem_of_groups(scheme, k)
               : fmt::format("its shape [{}, {}] is no multiple of {}", n, k, kWholeWords);
  }

  std::vector<WrittenPart> write(const IntegerGrid& grid) const override {
    return {{"qweight", words_of_inputs(grid)},
            {"qzeros", words_of_zeros(grid)},
            {"scales", scales_by_group(grid)},
            {"g_idx", groups_of_inputs(grid)}};
  }

  // "modules_in_block_to_quantize" is read by optimum and vLLM, "dynamic" by GPTQModel and vLLM.
  core::Json config(const WrittenModel& model) const override {
    core::Json config = {{"quant_method", "gptq"},
                         {"bits", model.scheme.code.bits},
                         {"group_size", written_group_size(model.scheme)},
                         {"desc_act", model.ordered},
                         {"sym", true},
                         {"lm_head", false},
                         {"checkpoint_format", "gptq"}};
    if (!model.dense.empty()) {
      config["modules_in_block_to_quantize"] = core::Json::array({model.layers});
      for (const std::string& layer : model.dense) {
        config["dynamic"]["-:^" + escaped(layer) + "$"] = core::Json::object();
      }
    }
    return config;
  }

  std::string_view config_file() const override { return "quantize_config.json"; }

 private:
  // As a regular expression.
  static std::string escaped(const std::string& layer) {
    std::string pattern;
    for (const char c : layer) {
      pattern += c == '.' ? "\\." : std::string(1, c);
    }
    return pattern;
  }
};

}  // namespace

std::unique_ptr<const Writer> make_gptq_writer() {
  return std::make_unique<const GptqWriter>();
}

}  // namespace nibble::formats::exchange
