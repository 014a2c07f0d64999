#include "compress/gqsa/gqsa_pass.h"

#include "compress/gqsa/group_saliency.h"
#include "compress/gqsa/kept_descent.h"
#include "compress/pruning/sparsegpt.h"
#include "compress/pruning/sparsity.h"

namespace nibble::compress {
namespace {

constexpr int kSweeps = 10;  // twice as many lower the error by less than a hundredth

class GqsaPass final : public Pass {
 public:
  explicit GqsaPass(PassOptions& options) : damp_(options.number("damp", 0.01, 0.0, 1.0)) {
    constexpr double kMost = 0.99;
    sparsity_.share = options.number("sparsity", sparsity_.share, 0.0, kMost);
    sparsity_.of_rows = options.choice("balance", {"row", "matrix"}) == "row";
    sparsity_.saliency =
        options.choice("saliency", {"gqsa", "obs"}) == "gqsa" ? Saliency::kGqsa : Saliency::kObs;
  }

  PassTraits traits() const override {
    return {.stage = Stage::kPrunes,
            .statistics = StatisticsKind::kHessian,
            .prunes = true,
            .takes_float_rows = true};
  }
  bool serves_output(const formats::Scheme& scheme) const override {
    return formats::is_block_sparse(scheme);
  }
  void check(const formats::Scheme& scheme) const override {
    core::require(
        formats::is_block_sparse(scheme), core::ErrorKind::kUsage,
        "recipe: pass 'gqsa' prunes groups of block-sparse rows, which {} does not store; "
        "take a scheme such as int4-asym-g16-bsr or f16-g16-bsr",
        scheme);
  }

  void apply(SetWork& work, const Backend& backend) const override {
    core::ThreadPool& pool = backend.pool();
    const std::int64_t k = work.layers.front().k();
    const InverseFactor factor =
        inverse_factor(work.statistics->hessian(), k, damp_, false, factor_on(backend));
    for (LayerWork& layer : work.layers) {
      if (!formats::is_block_sparse(layer.scheme)) {
        continue;
      }
      formats::require_shape(layer.scheme, layer.n(), k);
      require_prunable(layer, Sparsity());
      GroupSparsity sparsity = sparsity_;
      sparsity.group = layer.scheme.scale.group;
      sparsity.tile = formats::pattern_rows(layer.scheme);
      layer.kept = choose_groups(group_saliency(layer.weights, layer.n(), factor, sparsity, pool),
                                 layer.n(), sparsity);
      const std::vector<float> target = layer.weights;
      prune_chosen(layer.weights, layer.n(), k, layer.kept, factor, pool);
      descend_kept(layer.weights, target, layer.kept, layer.n(), k, work.statistics->hessian(),
                   factor.damp, kSweeps, pool);
      if (factor.damp > damp_) {
        layer.note = damp_note(factor);
      }
    }
  }

 private:
  GroupSparsity sparsity_;
  double damp_;
};

}  // namespace

constinit const PassFactory kGqsaPass = {"gqsa", read_pass<GqsaPass>};

}  // namespace nibble::compress
