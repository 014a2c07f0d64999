#include "compress/asymmetric/asymmetric_pass.h"

#include "compress/asymmetric/corrected_target.h"

namespace nibble::compress {
namespace {

class AsymmetricPass final : public Pass {
 public:
  explicit AsymmetricPass(PassOptions& options) : damp_(options.number("damp", 0.01, 0.0, 1.0)) {}

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

constinit const PassFactory kAsymmetricPass = {"asymmetric", read_pass<AsymmetricPass>};

}  // namespace nibble::compress
