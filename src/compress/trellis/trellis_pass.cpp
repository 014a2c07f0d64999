#include "compress/trellis/trellis_pass.h"

#include "compress/gptq/cholesky.h"
#include "compress/trellis/trellis_rounding.h"
#include "formats/trellis/trellis_code.h"

namespace nibble::compress {
namespace {

class TrellisPass final : public Pass {
 public:
  explicit TrellisPass(PassOptions& options)
      : damp_(options.number("damp", 0.01, 0.0, 1.0)),
        for_model_(options.choice("loss", {"layer", "model"}) == "model") {}

  PassTraits traits() const override {
    return {.stage = Stage::kRounds,
            .statistics = StatisticsKind::kHessian,
            .needs_curvature = for_model_};
  }

  void check(const formats::Scheme& scheme) const override {
    core::require(formats::has_trellis(scheme) || !formats::has_codes(scheme),
                  core::ErrorKind::kUsage,
                  "recipe: pass 'trellis' makes trellis codes (trellis4-row-hrow), not {}", scheme);
    core::require(!formats::has_codes(scheme) || scheme.scale.rows == 1, core::ErrorKind::kUsage,
                  "recipe: pass 'trellis' gives each row a scale, and {} has one for the matrix",
                  scheme);
  }

  void apply(SetWork& work, const Backend& backend) const override {
    core::ThreadPool& pool = backend.pool();
    const std::int64_t k = work.layers.front().k();
    const std::vector<float>& hessian = work.statistics->hessian();
    const InverseFactor factor = inverse_factor(hessian, k, damp_, false, factor_on(backend));
    for (LayerWork& layer : work.layers) {
      if (layer.is_dense()) {
        layer.packed = round_dense(layer);
        continue;
      }
      layer.packed =
          round_to_trellis(layer.weights, layer.n(), k, layer.scheme, factor, hessian, pool);
      if (work.statistics->rows() == 0) {
        layer.note = "no calibration token came here; errors of inputs are not made up for";
      } else if (factor.damp > damp_) {
        layer.note = damp_note(factor);
      }
    }
  }

 private:
  double damp_;
  bool for_model_;
};

}  // namespace

constinit const PassFactory kTrellisPass = {"trellis", read_pass<TrellisPass>};

}  // namespace nibble::compress
