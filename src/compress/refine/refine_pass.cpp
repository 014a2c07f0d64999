#include "compress/refine/refine_pass.h"

#include "compress/pass_options.h"
#include "compress/refine/refine.h"

namespace nibble::compress {
namespace {

class RefinePass final : public Pass {
 public:
  explicit RefinePass(PassOptions options) : damp_(options.number("damp", 0.01, 0.0, 1.0)) {
    options_.sweeps = options.integer("sweeps", options_.sweeps, 1, 100);
    options_.scales = options.flag("scales", options_.scales);
    options.require_all_used();
  }

  Stage stage() const override { return Stage::kRefines; }
  StatisticsKind needs() const override { return StatisticsKind::kHessian; }

  void apply(SetWork& work, core::ThreadPool& pool) const override {
    const std::int64_t k = work.layers.front().k();
    const auto hessian = symmetric_hessian(work.statistics->hessian(), k, damp_);
    for (LayerWork& layer : work.layers) {
      if (layer.is_dense()) {
        continue;
      }
      CodedWeight coded = unpack(*layer.packed);
      refine(coded, layer.target, layer.n(), k, layer.scheme, hessian, options_, pool, layer.kept);
      layer.packed = pack(coded, layer.n(), k, layer.scheme);
    }
  }

 private:
  RefineOptions options_;
  double damp_;
};

}  // namespace

PassFactory refine_pass() {
  return {"refine", [](const core::Json& options) -> std::unique_ptr<Pass> {
            return std::make_unique<RefinePass>(PassOptions(options, "refine"));
          }};
}

}  // namespace nibble::compress
