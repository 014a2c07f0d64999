#include "compress/pruning/sparsegpt_pass.h"

#include "compress/pruning/sparsegpt.h"
#include "compress/pruning/sparsity.h"

namespace nibble::compress {
namespace {

class SparseGptPass final : public Pass {
 public:
  explicit SparseGptPass(PassOptions& options)
      : sparsity_(read_sparsity(options)), damp_(options.number("damp", 0.01, 0.0, 1.0)) {}

  PassTraits traits() const override {
    return {.stage = Stage::kPrunes,
            .statistics = StatisticsKind::kHessian,
            .prunes = true,
            .takes_dense = true};
  }
  bool serves_output(const formats::Scheme&) const override { return false; }

  void apply(SetWork& work, const Backend& backend) const override {
    core::ThreadPool& pool = backend.pool();
    const std::int64_t k = work.layers.front().k();
    const InverseFactor factor =
        inverse_factor(work.statistics->hessian(), k, damp_, false, factor_on(backend));
    for (LayerWork& layer : work.layers) {
      require_prunable(layer, sparsity_);
      layer.kept = sparsegpt(layer.weights, layer.n(), k, sparsity_, factor, pool);
      if (factor.damp > damp_) {
        layer.note = damp_note(factor);
      }
    }
  }

 private:
  Sparsity sparsity_;
  double damp_;
};

}  // namespace

constinit const PassFactory kSparseGptPass = {"sparsegpt", read_pass<SparseGptPass>};

}  // namespace nibble::compress
