#include "compress/rtn/rtn_pass.h"

#include "compress/recipe/nv_rule.h"
#include "compress/recipe/single_codes.h"
#include "formats/format.h"

namespace nibble::compress {
namespace {

class RtnPass final : public Pass {
 public:
  explicit RtnPass(PassOptions& options) : rule_(read_nv_rule(options)) {}

  PassTraits traits() const override {
    return {.stage = Stage::kRounds, .takes_tails = true, .takes_dense = true};
  }

  void check(const formats::Scheme& scheme) const override {
    require_rule(scheme, rule_, "rtn");
    require_single_codes(scheme, "rtn");
  }

  // Pruned weights are 0, and the nearest code of 0 means 0 in every scheme that can be pruned.
  void apply(SetWork& work, const Backend& backend) const override {
    core::ThreadPool& pool = backend.pool();
    for (LayerWork& layer : work.layers) {
      layer.packed = round(layer, pool);
    }
  }

 private:
  formats::PackedWeight round(LayerWork& layer, core::ThreadPool& pool) const {
    const bool chosen = layer.parameters.has_value();
    const bool plain = rule_ == formats::NvRule::kPlain;
    if (layer.is_dense() || (!chosen && !plain && layer.scheme.inputs.tail == 0)) {
      return formats::round_to_nearest(layer.weights, layer.n(), layer.k(), layer.scheme, pool);
    }
    Parameters parameters =
        chosen ? *std::move(layer.parameters)
               : fit_parameters(layer.weights, layer.n(), layer.k(), layer.scheme, pool, rule_);
    return pack(
        round_with(layer.weights, layer.n(), layer.k(), layer.scheme, std::move(parameters), pool),
        layer.n(), layer.k(), layer.scheme, pool, layer.permutation);
  }

  formats::NvRule rule_;
};

}  // namespace

constinit const PassFactory kRtnPass = {"rtn", read_pass<RtnPass>};

}  // namespace nibble::compress
