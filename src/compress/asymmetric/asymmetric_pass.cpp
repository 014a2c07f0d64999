#include "compress/asymmetric/asymmetric_pass.h"

#include "compress/asymmetric/corrected_target.h"
#include "compress/recipe/pass_options.h"

namespace nibble::compress {
namespace {

class AsymmetricPass final : public Pass {
 public:
  explicit AsymmetricPass(PassOptions options) : damp_(options.number("damp", 0.01, 0.0, 1.0)) {
    options.require_all_used();
  }

  PassTraits traits() const override {
    return {.stage = Stage::kCorrects, .statistics = StatisticsKind::kCross};
  }

  void apply(SetWork& work, const Backend&) const override {
    const std::int64_t k = work.layers.front().k();
    const auto m = correction(work.statistics->cross(), work.statistics->hessian(), k, damp_);
    for (LayerWork& layer : work.layers) {
      multiply_rows(layer.target, k, m);
      multiply_rows(layer.weights, k, m);
    }
  }

 private:
  double damp_;
};

}  // namespace

PassFactory asymmetric_pass() {
  return {"asymmetric", [](const core::Json& options) -> std::unique_ptr<Pass> {
            return std::make_unique<AsymmetricPass>(PassOptions(options, "asymmetric"));
          }};
}

}  // namespace nibble::compress
