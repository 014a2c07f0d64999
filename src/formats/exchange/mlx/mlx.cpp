#include "formats/exchange/mlx/mlx.h"

#include <array>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "core/json.h"
#include "formats/exchange/affine_groups.h"
#include "formats/exchange/row_ranges.h"
#include "formats/exchange/stored_scales.h"
#include "formats/exchange/word_stream.h"

namespace nibble::formats::exchange {
namespace {

using core::ErrorKind;
using core::require;

constexpr std::array<std::string_view, 3> kParts = {"scales", "biases", "weight"};
constexpr int kFinestBits = 8;
constexpr double kMostChange = 0.02;  // of weights; rounding to 4 bits is about 0.1

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// "mode" of a configuration.
enum class Mode { kAffine, kMxfp4, kNvfp4 };

struct Settings {
  Mode mode = Mode::kAffine;
  int bits = 4;
  std::int64_t group = 64;
};

Mode mode_of(const core::Json& config, const std::string& what) {
  const std::string mode = core::find_string(config, "mode", what).value_or("affine");
  if (mode == "mxfp4" || mode == "nvfp4") {
    return mode == "mxfp4" ? Mode::kMxfp4 : Mode::kNvfp4;
  }
  require(mode == "affine", ErrorKind::kInvalidModel,
          "{}: layers of MLX's mode '{}' can't be read, only 'affine', 'mxfp4' and 'nvfp4'", what,
          core::printable(mode));
  return Mode::kAffine;
}

constexpr std::int64_t group_of(Mode mode) {
  return mode == Mode::kMxfp4 ? 32 : 16;
}

Settings settings_of(const core::Json& config, const std::string& what) {
  Settings settings;
  settings.mode = mode_of(config, what);
  settings.bits = static_cast<int>(core::get_integer(config, "bits", what, 1, 64));
  settings.group = core::get_integer(config, "group_size", what, 1, 1 << 30);
  if (settings.mode != Mode::kAffine) {
    require(settings.bits == 4 && settings.group == group_of(settings.mode),
            ErrorKind::kInvalidModel, "{}: MLX's '{}' has 4 bits and groups of {}, not {} and {}",
            what, settings.mode == Mode::kMxfp4 ? "mxfp4" : "nvfp4", group_of(settings.mode),
            settings.bits, settings.group);
    return settings;
  }
  require(settings.bits >= 2 && settings.bits <= 8 && settings.bits != 7, ErrorKind::kInvalidModel,
          "{}: MLX's layers of {} bits can't be read, only of 2, 3, 4, 5, 6 and 8", what,
          settings.bits);
  require(settings.group == 32 || settings.group == 64 || settings.group == 128,
          ErrorKind::kInvalidModel, "{}: MLX has groups of 32, 64 and 128, and not of {}", what,
          settings.group);
  return settings;
}

bool has_nibble_integers(int bits) {
  return bits == 2 || bits == 3 || bits == 4 || bits == 8;
}

class MlxReader final : public Reader {
 public:
  explicit MlxReader(const core::Json& config)
      : settings_(settings_of(config, std::string(kConfigName))) {
    for (const auto& [layer, value] : config.items()) {
      if (value.is_object()) {
        of_layers_.emplace(
            layer, settings_of(value, fmt::format("{} '{}'", kConfigName, core::printable(layer))));
      }
    }
  }

  std::string description() const override {
    switch (settings_.mode) {
      case Mode::kMxfp4:
        return "mlx, mxfp4";
      case Mode::kNvfp4:
        return "mlx, nvfp4";
      case Mode::kAffine:
        break;
    }
    return fmt::format("mlx, {} bits, groups of {}", settings_.bits, settings_.group);
  }

  std::span<const std::string_view> part_names() const override { return kParts; }

  ReadLayer read(const StoredLayer& layer) const override {
    const Settings& settings = settings_for(layer);
    if (settings.mode != Mode::kAffine) {
      return read_fp4(layer, settings.mode);
    }
    const AffineGroups affine = stored(layer);
    const int bits = has_nibble_integers(affine.bits) ? affine.bits : kFinestBits;
    const NearestGrid held = nearest_grid(affine, bits, layer.name);
    ReadLayer result =
        held.error == 0 ? pack_grid(held.grid, layer.name) : pack_minima(affine, bits, layer.name);
    if (bits != affine.bits) {
      result.remarks.push_back(fmt::format("codes of {} bits are held in 8", affine.bits));
    }
    return result;
  }

  ReadLayer read_with_zero_points(const StoredLayer& layer) const override {
    if (settings_for(layer).mode != Mode::kAffine) {
      return read(layer);
    }
    const AffineGroups affine = stored(layer);
    const bool direct = has_nibble_integers(affine.bits);
    const NearestGrid held = nearest_grid(affine, direct ? affine.bits : kFinestBits, layer.name);
    if (held.error > kMostChange) {
      return read(layer);
    }
    ReadLayer result = pack_grid(held.grid, layer.name);
    result.weight_error = held.error;
    if (!direct) {
      result.remarks.push_back(fmt::format("codes of {} bits are held in 8", affine.bits));
    }
    return result;
  }

 private:
  const Settings& settings_for(const StoredLayer& layer) const {
    const auto own = of_layers_.find(layer.name);
    return own == of_layers_.end() ? settings_ : own->second;
  }

  // Words of 4-bit codes, the first in the lowest bits: the bytes of Nibble's rows.
  static ReadLayer read_fp4(const StoredLayer& layer, Mode mode) {
    const std::int64_t group = group_of(mode);
    require(layer.k % group == 0, ErrorKind::kInvalidModel,
            "{}: groups of {} don't divide its {} inputs", core::printable(layer.name), group,
            layer.k);
    const core::Tensor& words =
        layer.part("weight", core::DType::kI32, {layer.n, words_for(layer.k, 4)});
    ReadLayer result;
    PackedWeight& weight = result.weight;
    weight.scheme.code = {&kBookCodes, 4, Book::kE2m1};
    weight.scheme.scale = {mode == Mode::kMxfp4 ? ScaleType::kE8m0 : ScaleType::kE4m3, group};
    weight.n = layer.n;
    weight.k = layer.k;
    weight.codes = core::Tensor::from(
        std::span(reinterpret_cast<const std::uint8_t*>(words.raw()), index(words.bytes())),
        {layer.n, layer.k / 2});
    weight.scales = layer.part("scales", core::DType::kU8, {layer.n, layer.k / group});
    if (mode == Mode::kNvfp4) {
      const float global[] = {1.0f};
      weight.global = core::Tensor::from(std::span<const float>(global), {1, 1});
    }
    validate(weight, layer.name);
    return result;
  }

  AffineGroups stored(const StoredLayer& layer) const {
    const Settings& settings = settings_for(layer);
    require(layer.k % settings.group == 0, ErrorKind::kInvalidModel,
            "{}: groups of {} don't divide its {} inputs", core::printable(layer.name),
            settings.group, layer.k);
    AffineGroups affine{.bits = settings.bits, .n = layer.n, .k = layer.k, .group = settings.group};
    const core::Shape shape = {layer.n, layer.k / settings.group};
    affine.scales = float_part(layer, "scales", shape);
    affine.biases = float_part(layer, "biases", shape);
    affine.codes = codes(layer, settings.bits);
    return affine;
  }

  static std::vector<std::uint8_t> codes(const StoredLayer& layer, int bits) {
    const std::int64_t columns = words_for(layer.k, bits);
    const auto words =
        layer.part("weight", core::DType::kI32, {layer.n, columns}).data<std::int32_t>();
    std::vector<std::uint8_t> codes(index(layer.n * layer.k));
    for_row_ranges(layer.n, layer.k, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t n = first; n < last; ++n) {
        const WordStream row(words.subspan(index(n * columns), index(columns)), 1, bits);
        for (std::int64_t k = 0; k < layer.k; ++k) {
          codes[index(n * layer.k + k)] = row[k];
        }
      }
    });
    return codes;
  }

  Settings settings_;
  std::map<std::string, Settings, std::less<>> of_layers_;
};

}  // namespace

std::unique_ptr<const Reader> make_mlx_reader(const core::Json& config) {
  return std::make_unique<const MlxReader>(config);
}

}  // namespace nibble::formats::exchange
