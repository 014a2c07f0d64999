#include "compress/static_activations/static_activations_pass.h"

#include <algorithm>

namespace nibble::compress {
namespace {

class StaticActivationsPass final : public Pass {
 public:
  explicit StaticActivationsPass(PassOptions& options)
      : clip_(options.number("clip", 1.0, 0.1, 1.0)) {}

  PassTraits traits() const override {
    return {.stage = Stage::kRefines,
            .statistics = StatisticsKind::kChannels,
            .fits_input_scales = true,
            .takes_dense = true};
  }

  void apply(SetWork& work, const Backend&) const override {
    for (LayerWork& layer : work.layers) {
      if (layer.scheme.activation.stored_scale) {
        fit(*work.statistics, layer);
      }
    }
  }

 private:
  void fit(const InputStatistics& statistics, LayerWork& layer) const {
    const std::vector<float>& channels = statistics.largest();
    const float largest = *std::max_element(channels.begin(), channels.end());
    if (largest == 0.0f) {
      layer.note = "its inputs were all 0 on the calibration text; their scale is 1";
      return;
    }
    const int top = (1 << (layer.scheme.activation.bits - 1)) - 1;
    const double scale = clip_ * static_cast<double>(largest) / top;
    layer.packed = formats::with_input_scale(
        *std::move(layer.packed),
        std::clamp(static_cast<float>(scale), formats::kMinInputScale, formats::kMaxInputScale));
  }

  double clip_;
};

}  // namespace

constinit const PassFactory kStaticActivationsPass = {"static-activations",
                                                      read_pass<StaticActivationsPass>};

}  // namespace nibble::compress
