#include "compress/smoothquant/smoothquant_pass.h"

#include <algorithm>
#include <cmath>

namespace nibble::compress {
namespace {

// Largest |w| of the columns that each scale multiplies, over all layers of the set.
std::vector<float> largest_weights(const SetWork& set) {
  std::vector<float> largest(static_cast<std::size_t>(set.source.scales));
  for (const LayerWork& layer : set.layers) {
    const float* w = layer.weights.data();
    for (std::int64_t row = 0; row < layer.n(); ++row, w += layer.k()) {
      for (std::int64_t j = 0; j < layer.k(); ++j) {
        float& value =
            largest[static_cast<std::size_t>(set.source.scale_of[static_cast<std::size_t>(j)])];
        value = std::max(value, std::fabs(w[j]));
      }
    }
  }
  return largest;
}

class SmoothQuantPass final : public Pass {
 public:
  explicit SmoothQuantPass(PassOptions& options) : alpha_(options.number("alpha", 0.5, 0.0, 1.0)) {}

  PassTraits traits() const override {
    return {
        .stage = Stage::kTransforms, .statistics = StatisticsKind::kChannels, .takes_tails = true};
  }
  bool serves_output(const formats::Scheme&) const override { return false; }

  // Section 4, equation 4: s = max|x|^alpha / max|w|^(1 - alpha). A channel that is always zero on
  // one side keeps its scale.
  void apply(SetWork& work, const Backend&) const override {
    const InputSource& source = work.source;
    if (source.scales == 0) {
      return note_unscaled(work);
    }
    const std::vector<float> weights = largest_weights(work);
    std::vector<float> inputs(weights.size());
    for (std::size_t j = 0; j < source.scale_of.size(); ++j) {
      float& value = inputs[static_cast<std::size_t>(source.scale_of[j])];
      value = std::max(value, work.statistics->largest()[j]);
    }
    std::vector<float> s(weights.size(), 1.0f);
    for (std::size_t i = 0; i < s.size(); ++i) {
      if (inputs[i] > 0 && weights[i] > 0) {
        const double scale = std::pow(static_cast<double>(inputs[i]), alpha_) /
                             std::pow(static_cast<double>(weights[i]), 1 - alpha_);
        s[i] = static_cast<float>(std::clamp(scale, kSmallest, kLargest));
      }
    }
    scale_inputs(work, s);
  }

 private:
  static constexpr double kSmallest = 1e-5;
  static constexpr double kLargest = 1e5;
  double alpha_;
};

}  // namespace

constinit const PassFactory kSmoothQuantPass = {"smoothquant", read_pass<SmoothQuantPass>};

}  // namespace nibble::compress
