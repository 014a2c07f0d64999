#include "compress/gptq/gptq_pass.h"

#include "compress/coding/gpu_coder.h"
#include "compress/gptq/gptq.h"
#include "compress/recipe/nv_rule.h"
#include "compress/recipe/single_codes.h"

namespace nibble::compress {
namespace {

class GptqPass final : public Pass {
 public:
  explicit GptqPass(PassOptions& options)
      : damp_(options.number("damp", 0.01, 0.0, 1.0)),
        act_order_(options.flag("act_order", true)),
        rule_(read_nv_rule(options)) {}

  PassTraits traits() const override {
    return {.stage = Stage::kRounds, .statistics = StatisticsKind::kHessian, .takes_tails = true};
  }
  bool runs_on_gpu(const formats::Scheme& scheme) const override {
    return has_gpu_coder_of_head(scheme);
  }

  void check(const formats::Scheme& scheme) const override {
    require_rule(scheme, rule_, "gptq");
    require_single_codes(scheme, "gptq");
  }

  void apply(SetWork& work, const Backend& backend) const override {
    core::ThreadPool& pool = backend.pool();
    const std::int64_t k = work.layers.front().k();
    const InverseFactor factor =
        inverse_factor(work.statistics->hessian(), k, damp_, act_order_, factor_on(backend));
    for (LayerWork& layer : work.layers) {
      if (layer.is_dense()) {
        layer.packed = round_dense(layer);
        continue;
      }
      Parameters parameters =
          layer.parameters ? *std::move(layer.parameters)
                           : fit_parameters(layer.weights, layer.n(), k, layer.scheme, pool, rule_);
      layer.packed = pack(gptq(layer.weights, layer.n(), k, layer.scheme, std::move(parameters),
                               factor, backend, layer.kept),
                          layer.n(), k, layer.scheme, pool, layer.permutation);
      if (work.statistics->rows() == 0) {
        layer.note = "no calibration token came here; rounded to nearest";
      } else if (factor.damp > damp_) {
        layer.note = damp_note(factor);
      }
    }
  }

 private:
  double damp_;
  bool act_order_;
  formats::NvRule rule_;
};

}  // namespace

constinit const PassFactory kGptqPass = {"gptq", read_pass<GptqPass>};

}  // namespace nibble::compress
