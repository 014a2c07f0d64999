#include "compress/refine/refine_pass.h"

#include "compress/refine/model_refine.h"
#include "compress/refine/refine.h"

namespace nibble::compress {
namespace {

class RefinePass final : public Pass {
 public:
  explicit RefinePass(PassOptions& options)
      : for_model_(options.choice("loss", {"layer", "model"}) == "model"),
        damp_(options.number("damp", 0.01, 0.0, 1.0)),
        output_damp_(options.number("output_damp", 0.1, 0.0, 100.0)) {
    options_.sweeps = options.integer("sweeps", options_.sweeps, 1, 100);
    options_.scales = options.flag("scales", options_.scales);
  }

  PassTraits traits() const override {
    return {.stage = Stage::kRefines,
            .statistics = StatisticsKind::kHessian,
            .needs_curvature = for_model_};
  }

  void apply(SetWork& work, const Backend& backend) const override {
    core::ThreadPool& pool = backend.pool();
    const std::int64_t k = work.layers.front().k();
    const auto hessian = symmetric_hessian(work.statistics->hessian(), k, damp_);
    for (LayerWork& layer : work.layers) {
      if (layer.is_dense()) {
        continue;
      }
      CodedWeight coded = unpack(*layer.packed);
      if (for_model_) {
        refine_model(coded, layer, hessian, pool);
      } else {
        refine(coded, layer.target, layer.n(), k, layer.scheme, hessian, options_, pool,
               layer.kept);
      }
      layer.packed = pack(coded, layer.n(), k, layer.scheme, pool);
    }
  }

 private:
  void refine_model(CodedWeight& coded, const LayerWork& layer, const std::vector<float>& hessian,
                    core::ThreadPool& pool) const {
    const ModelObjective objective{*layer.curvature, output_damp_, hessian};
    pool.parallel_for(layer.curvature->blocks(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        refine_for_model(coded, layer.target, layer.k(), layer.scheme, objective, block, options_,
                         layer.kept);
      }
    });
  }

  RefineOptions options_;
  bool for_model_;
  double damp_;
  double output_damp_;
};

}  // namespace

constinit const PassFactory kRefinePass = {"refine", read_pass<RefinePass>};

}  // namespace nibble::compress
