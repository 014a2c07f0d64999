#include "compress/static_activations/static_activations_pass.h"

#include <algorithm>

namespace nibble::compress {
namespace {

class StaticActivationsPass final : public Pass {
 public:
  explicit StaticActivationsPass(PassOptions& options)
      : clip_(options.number("clip", 1.0, 0.1, 1.0)),
        percentile_(options.number("percentile", 100.0, 50.0, 100.0)) {}

  PassTraits traits() const override {
    return {.stage = Stage::kRefines,
            .statistics = StatisticsKind::kChannels,
            .fits_input_scales = true,
            .reads_magnitudes = percentile_ < 100.0,
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
  static float largest_of(const InputStatistics& statistics) {
    const std::vector<float>& channels = statistics.largest();
    return *std::max_element(channels.begin(), channels.end());
  }

  // The one that becomes the largest code; 0 where all inputs were.
  float magnitude(const InputStatistics& statistics, std::string& note) const {
    const float largest = largest_of(statistics);
    if (largest == 0.0f) {
      note = "its inputs were all 0 on the calibration text; their scale is 1";
    }
    if (largest == 0.0f || percentile_ == 100.0) {
      return largest;
    }
    const float found = statistics.magnitudes().percentile(percentile_);
    if (found == 0.0f) {
      note = fmt::format(
          "{} % of its inputs were 0 on the calibration text; the largest sets the "
          "scale",
          percentile_);
    }
    return found == 0.0f ? largest : found;
  }

  void fit(const InputStatistics& statistics, LayerWork& layer) const {
    const float most = magnitude(statistics, layer.note);
    if (most == 0.0f) {
      return;
    }
    const int top = (1 << (layer.scheme.activation.bits - 1)) - 1;
    const double scale = clip_ * static_cast<double>(most) / top;
    layer.packed = formats::with_input_scale(
        *std::move(layer.packed),
        std::clamp(static_cast<float>(scale), formats::kMinInputScale, formats::kMaxInputScale));
  }

  double clip_;
  double percentile_;
};

}  // namespace

constinit const PassFactory kStaticActivationsPass = {"static-activations",
                                                      read_pass<StaticActivationsPass>};

}  // namespace nibble::compress
