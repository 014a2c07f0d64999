// Layers and quantization of MLX's folders.

#include <array>
#include <cmath>

#include <fmt/format.h>

#include "core/error.h"
#include "core/float16.h"
#include "core/json.h"
#include "formats/exchange/integer_grid.h"
#include "formats/exchange/mlx/mlx.h"
#include "formats/exchange/written_scheme.h"

namespace nibble::formats::exchange {
namespace {

using core::DType;

constexpr std::array<std::int64_t, 3> kGroups = {128, 64, 32};

// What code 0 of a group stands for, in float16.
float bias_of(const IntegerGrid& grid, std::size_t at) {
  if (!grid.minima.empty()) {
    return grid.minima[at];
  }
  const float exact = -grid.scales[at] * static_cast<float>(zero_of(grid, at));
  const float bias = core::to_float(core::to_fp16(exact));
  core::require(std::isfinite(bias), core::ErrorKind::kInvalidModel,
                "MLX's biases are float16, which can't hold {}; choose fewer bits with --scheme",
                exact);
  return bias;
}

class MlxWriter final : public Writer {
 public:
  Scheme nearest(const Scheme& scheme) const override {
    const bool minima = is_integer(scheme) && has_minima(scheme) && !has_supers(scheme);
    return integer_scheme(scheme.code.bits, nearest_group(scheme.scale.group),
                          minima ? Zero::kReal : Zero::kInteger);
  }

  std::string problem(const Scheme& scheme, std::int64_t, std::int64_t k) const override {
    return problem_of_groups(scheme, k);
  }

  std::vector<WrittenPart> write(const IntegerGrid& grid) const override {
    std::vector<float> biases(grid.scales.size());
    for (std::size_t at = 0; at < biases.size(); ++at) {
      biases[at] = bias_of(grid, at);
    }
    const core::Shape shape = {grid.n, groups_of(grid.k, grid.group)};
    return {{"weight", words_of_codes(grid), "U32"},
            {"scales", scales_by_row(grid)},
            {"biases", core::from_float32(biases, shape, DType::kF16)}};
  }

  std::vector<float> written_weights(const IntegerGrid& grid) const override {
    std::vector<float> weights(grid.codes.size());
    const auto group = static_cast<std::size_t>(grid.group);
    for (std::size_t at = 0; at < grid.scales.size(); ++at) {
      const float bias = bias_of(grid, at);
      for (std::size_t i = at * group; i < (at + 1) * group; ++i) {
        weights[i] = grid.scales[at] * static_cast<float>(grid.codes[i]) + bias;
      }
    }
    return weights;
  }

  // As mlx-lm writes it; a layer without "scales" is a plain one.
  core::Json config(const WrittenModel& model) const override {
    return {{"group_size", model.scheme.scale.group}, {"bits", model.scheme.code.bits}};
  }

  std::vector<std::string_view> config_keys() const override {
    return {"quantization", "quantization_config"};
  }

 private:
  // Rows and groups of other sizes: the largest that divides them.
  static std::int64_t nearest_group(std::int64_t group) {
    for (const std::int64_t size : kGroups) {
      if (group % size == 0) {
        return size;
      }
    }
    return kGroups.back();
  }
};

}  // namespace

std::unique_ptr<const Writer> make_mlx_writer() {
  return std::make_unique<const MlxWriter>();
}

}  // namespace nibble::formats::exchange
