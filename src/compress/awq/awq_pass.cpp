#include "compress/awq/awq_pass.h"

#include "compress/awq/clip_search.h"
#include "compress/awq/scale_search.h"
#include "compress/recipe/single_codes.h"

namespace nibble::compress {
namespace {

class AwqPass final : public Pass {
 public:
  explicit AwqPass(PassOptions& options)
      : scale_(options.flag("scale", true)), clip_(options.flag("clip", true)) {}

  PassTraits traits() const override {
    return {.stage = Stage::kTransforms, .statistics = StatisticsKind::kHessian};
  }
  bool runs_on_gpu(const formats::Scheme& scheme) const override { return awq_runs_on_gpu(scheme); }
  bool serves_output(const formats::Scheme&) const override { return clip_; }

  void check(const formats::Scheme& scheme) const override {
    require_unturned(scheme);
    require_single_codes(scheme, "awq");
    const bool learned = formats::has_learned_book(scheme);
    core::require(!(learned && clip_), core::ErrorKind::kUsage,
                  "pass 'awq' cannot clip for {}, whose books are learned after it; give it "
                  "\"clip\": false",
                  scheme);
  }

  // Scales and clipping are judged by rounding the weights as they stand before they are turned.
  void require_unturned(const formats::Scheme& scheme) const {
    core::require(scheme.inputs.hadamard == 0, core::ErrorKind::kUsage,
                  "pass 'awq' cannot judge scales for {}, whose weights are turned after it; leave "
                  "one of them out",
                  scheme);
  }

  void apply(SetWork& work, const Backend& backend) const override {
    if (work.statistics->rows() == 0) {
      for (LayerWork& layer : work.layers) {
        layer.note = "no calibration token came here; rounded without scales or clipping";
      }
      return;
    }
    if (scale_ && work.source.scales > 0) {
      scale_inputs(work, search_scales(work, backend));
    } else if (scale_) {
      note_unscaled(work);
    }
    if (clip_) {
      clip_set(work, backend);
    }
  }

 private:
  bool scale_;
  bool clip_;
};

}  // namespace

constinit const PassFactory kAwqPass = {"awq", read_pass<AwqPass>};

}  // namespace nibble::compress
